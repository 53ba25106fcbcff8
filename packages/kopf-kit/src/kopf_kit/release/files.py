"""All files of a release with their checksums: Python packages, manifests, and an image of them.

The Python packages of a repository are one folder each in `packages/`, all of one version; the same
sources make the same bytes: uv's own builder gives every file one date.
"""

import contextlib
import hashlib
import importlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from kopf_kit.compatible import specifier
from kopf_kit.olm import catalog, manifests
from kopf_kit.project import releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME, Release
from kopf_kit.release import artifacts, packed
from kopf_kit.rig import paths, registry
from kopf_kit.rig.run import KitError, output

CHECKSUMS = "checksums.txt"
#: Only releases need what it imports, so it is imported where it is used.
_MATERIALS = "kopf_kit.release.materials"


def check() -> None:
    """Raise KitError where the packages are missing that only releases need."""
    importlib.import_module(_MATERIALS)


def write(
    folder: Path,
    release: Release,
    published: Mapping[str, str],
    date: datetime,
    public_keys: Sequence[Path],
) -> None:
    """Write the files of a release into a folder, in the place of what is there.

    `published` has all that is in the registry, by its digest.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build(folder)
    packed.write(folder)
    texts = {
        **manifests.texts(*artifacts.options(release.image, release.pod_images)),
        "images.txt": "".join(f"{name} {ref}\n" for name, ref in sorted(published.items())),
        **{
            f"image-{name.replace('/', '-')}.cdx.json": bill
            for name, _, bill in _bills(release.image, release.version, date)
        },
        **{
            file.name: file.read_text()
            for file in sorted(paths.CHECKOUT.glob("LICEN[CS]E*"))
            if file.is_file()
        },
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for place in dict.fromkeys((PROJECT.built, PROJECT.root)):
        for page in (place / "docs").glob("runbooks*.md"):
            shutil.copy(page, folder)
    for key in public_keys:
        shutil.copy(key, folder)
    (folder / CHECKSUMS).write_text(_checksums(folder))


def image_materials(image: str, version: str, date: datetime) -> str:
    """Return the bill of materials of an image of one platform."""
    from kopf_kit.release import materials

    repository, _, digest = image.partition("@")
    purl = f"pkg:oci/{NAME}@{digest.replace(':', '%3A')}?repository_url={repository}"
    with tempfile.NamedTemporaryFile(suffix=".tar") as exported:
        registry.crane("export", image, exported.name)
        return materials.of_image(Path(exported.name), materials.subject(NAME, version, purl), date)


def push(folder: Path, ref: str, date: datetime) -> str:
    """Push the image of a release's files, unless it is there; return it by its digest.

    Raises KitError where the registry has other files of that release.
    """
    files = {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }
    programs = [name for name, content in files.items() if content.startswith(b"#!")]
    with tempfile.NamedTemporaryFile(suffix=".tar") as layer:
        layer.write(registry.archive(files, date, programs=programs))
        layer.flush()
        return registry.push_layer(Path(layer.name), ref)


def subjects(folder: Path, published: Mapping[str, str]) -> str:
    """Return the digests of what a release builds, as GitHub attests them."""
    copied = {pods.name for pods in PROJECT.images}  # others built them
    built = {name: ref for name, ref in published.items() if name not in copied}
    digests = {name: ref.partition("@sha256:")[2] for name, ref in built.items()}
    checksums = (folder / CHECKSUMS).read_text()
    digests[CHECKSUMS] = hashlib.sha256(checksums.encode()).hexdigest()
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items()) + checksums


def _bills(image: str, version: str, date: datetime) -> Iterator[tuple[str, str, str]]:
    """Yield each platform of an image, its image, and the bill of materials of that."""
    for name, ref in registry.platforms(image).items():
        yield name, ref, image_materials(ref, version, date)


def sizes(release: Release, date: datetime) -> str:
    """Return what a node pulls of the image, beside the release before it, as Markdown.

    It depends on what the registry has, so it is no file of the release, which never changes.
    """
    lines = ["| Image | Platform | Pulled | Packages |", "|---|---|---:|---:|"]
    lines += _weighed(release.image, release.version, date)
    ours = catalog.order(release.version)
    finals = (t for t in releases.tagged(PROJECT.root) if catalog.VERSION.fullmatch(t))
    earlier = [each for each in finals if "-" not in each and catalog.order(each) < ours]
    if earlier:
        last = max(earlier, key=catalog.order)
        # The registry may have lost it; a release does not depend on what was before it.
        with contextlib.suppress(KitError):
            if image := registry.pinned(f"{registry.repository(release.image)}:{last}"):
                lines += _weighed(image, last, date)
    return "\n".join([*lines, ""])


def _weighed(image: str, version: str, date: datetime) -> Iterator[str]:
    """Yield what a node pulls of each platform's image, and the number of packages in it."""
    for name, ref, bill in _bills(image, version, date):
        size = sum(layer["size"] for layer in registry.manifest(ref)["layers"])
        packages = len(json.loads(bill)["components"])
        yield f"| {version} | {name} | {size / 1e6:.1f} MB | {packages} |"


def _checksums(folder: Path) -> str:
    """Return the checksums of a folder's files, as `sha256sum --check` reads them."""
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}\n"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    )


#: The folder of the distributions, each of which has its version in its `pyproject.toml`.
PACKAGES = paths.CHECKOUT / "packages"

#: The names of what is built: wheels, and archives of the sources.
_FILES = ("*.whl", "*.tar.gz")


def build(folder: Path, packages: Path = PACKAGES) -> list[Path]:
    """Write wheels and source archives into a folder; return their paths."""
    scratch = folder / ".distributions"
    shutil.rmtree(scratch, ignore_errors=True)
    for package in _packages(packages):
        sources = scratch / package.name
        shutil.copytree(package, sources, ignore=shutil.ignore_patterns("__pycache__"))
        uv = Path(sys.executable).with_name("uv")
        options = ("--quiet", "--offline", "--no-config", "--sdist", "--wheel")
        output([uv, "build", *options, "--out-dir", scratch / "built", sources], timeout=120)
    archives = files(scratch / "built")
    built = [file.replace(folder / file.name) for file in archives]
    shutil.rmtree(scratch, ignore_errors=True)
    return built


def files(folder: Path) -> list[Path]:
    """Return the wheels and source archives in a folder."""
    return sorted(file for kind in _FILES for file in folder.glob(kind))


def raised(version: str, packages: Path = PACKAGES) -> dict[Path, str]:
    """Return each distribution's `pyproject.toml` with a version, and with the pins of the others.

    Raise KitError where one does not name its version in a line of its own.
    """
    names = "|".join(package.name for package in _packages(packages))
    pins = re.compile(rf'(?<=")((?:{names})(?:\[[^\]]*\])?==)[^"]+')
    texts = {}
    for package in _packages(packages):
        file = package / "pyproject.toml"
        text, times = re.subn(
            r'^version = "[^"]*"', f'version = "{version}"', file.read_text(), flags=re.MULTILINE
        )
        if times != 1:
            raise KitError(
                f'{file}: {times} lines look like version = "{version}"; there must be one'
            )
        texts[file] = pins.sub(rf"\g<1>{version}", text)
    return texts | _of_examples(version, names, packages.parent / "examples")


def _of_examples(version: str, names: str, examples: Path) -> dict[Path, str]:
    """Return what an example's author writes to use a version of the distributions."""
    patterns = {
        "pyproject.toml": (rf'"((?:{names})(?:\[[^\]]*\])?)>=[^"]*"', rf'"\1{specifier(version)}"'),
        "PROJECT": (r"^cliVersion: .*$", f"cliVersion: {version}"),
    }
    return {
        file: re.sub(pattern, newer, file.read_text(), flags=re.MULTILINE)
        for name, (pattern, newer) in patterns.items()
        for file in sorted(examples.glob(f"*/{name}"))
    }


def _packages(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob("*/pyproject.toml"))
