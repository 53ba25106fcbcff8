"""What the operator's image is built from: a Dockerfile, and the folder that is its context."""

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import kopf_runtime
from kopf_kit.project import adopted, author_code, container, documents, registered, shared, written
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import dockerfiles, locked, paths, reading, versions
from kopf_kit.rig.run import KitError, output

#: Written for the operator that `kopf_kit.project.shared` names.
SHARED = paths.KIT / "reference" / "Dockerfile"
_OWN = PROJECT.root / (PROJECT.adopted.dockerfile if PROJECT.adopted else "Dockerfile")
_CONTEXT = paths.BUILD / "image" / PROJECT.name
_BYTECODE = Path(__file__).with_name("bytecode.py")
_USER = (
    "# Added by kopf-kit: as PROJECT says, or else because the kubelet starts no root.\nUSER {}\n"
)
_LICENCE = re.compile(r"(licen[cs]e|copying|notice)", re.IGNORECASE)
#: The architectures of the images, as wheels call them.
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def file() -> Path:
    """Return the Dockerfile by which the image is built: an author's never ends as root."""
    if not has_own():
        return _CONTEXT / "Dockerfile"
    if not PROJECT.adopted:
        return _OWN
    if container.read(text := reading.text(_OWN)).is_root or PROJECT.adopted.user:
        copy = _CONTEXT.with_name(f"{PROJECT.name}.Dockerfile")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(f"{text.rstrip()}\n{_USER.format(PROJECT.adopted.user or '65532:65532')}")
        return copy
    return _OWN


def context() -> Path:
    """Return the folder from which the image is built; lay it out, unless it is the checkout."""
    if has_own():
        return paths.CHECKOUT
    needed = requirements()
    shutil.rmtree(_CONTEXT, ignore_errors=True)
    (_CONTEXT / "app").mkdir(parents=True)
    (_CONTEXT / "requirements.txt").write_text(needed)
    for platform in dict.fromkeys((dockerfiles.host(), *dockerfiles.requested())):
        _install(dockerfiles.architecture(platform))
    (_CONTEXT / "Dockerfile").write_text(text())
    for file in (_BYTECODE, registered.NO_CLUSTER):
        shutil.copy(file, _CONTEXT)
    (_CONTEXT / "licenses").mkdir()
    for file in PROJECT.root.iterdir():
        if file.is_file() and _LICENCE.match(file.name):
            shutil.copy(file, _CONTEXT / "licenses")
    if not PROJECT.adopted:
        _copy(PROJECT.code)
    elif PROJECT.code.exists() and not _is_installed():  # it may be one of its requirements
        module, environment = PROJECT.adopted.module, PROJECT.adopted.environment
        loaded = registered.read(module, PROJECT.root, environment)["loaded"]
        for beside in author_code.modules_beside(PROJECT.sources, PROJECT.root, loaded):
            target = _CONTEXT / "app" / beside.relative_to(PROJECT.sources)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(beside, target)
    if not PROJECT.adopted and not re.search(r"^kopf-runtime==", needed, re.MULTILINE):
        _copy(Path(kopf_runtime.__file__).parent)
    return _CONTEXT


def has_own() -> bool:
    """Return whether the repository's Dockerfile is used: it is, unless `adopt` was told not to."""
    return _OWN.is_file() and not (PROJECT.adopted and PROJECT.adopted.requirements)


def text() -> str:
    """Return the kit's Dockerfile for this operator."""
    chart = adopted.metadata(PROJECT)
    words = {
        "PACKAGE": PROJECT.package,
        "MODULE": PROJECT.adopted.module if PROJECT.adopted else "",
        "NAME": PROJECT.name,
        "DESCRIPTION": chart["description"],
        "VENDOR": next((each["name"] for each in chart.get("maintainers", ())), PROJECT.name),
        "SOURCE": chart["home"],
        "COMMAND": json.dumps(PROJECT.command),
    }
    filled = re.sub(r"@(\w+)@", lambda word: words[word[1]], shared.read(SHARED))
    return f"{documents.header('kopf_kit/image/dockerfile.py')}{filled}"


def _copy(code: Path) -> None:
    """Copy a package or a module into the context."""
    target = _CONTEXT / "app" / code.name
    if code.is_file():
        shutil.copy(code, target)
    else:
        shutil.copytree(code, target, ignore=shutil.ignore_patterns("__pycache__"))


def _is_installed() -> bool:
    """Return whether the requirements, or the repository's own package, have its code."""
    installed = _CONTEXT.glob(f"out/*/app/{PROJECT.package}*")
    return any(found.stem == PROJECT.package for found in installed)


def _install(architecture: str) -> None:
    """Install what the operator needs into the context, without its scripts."""
    if architecture not in _MACHINES:
        raise KitError(f"no image is built for {architecture}: only for {' and '.join(_MACHINES)}")
    target = _CONTEXT / "out" / architecture / "app"
    options = (
        *("--quiet", "--python", sys.executable, "--target", target),
        *("--python-platform", f"{_MACHINES[architecture]}-manylinux_2_40"),
        *("--python-version", versions.PYTHON, "--no-deps"),
    )
    # An author's may need a package that is released without wheels, which uv builds.
    wheels = () if PROJECT.adopted else ("--only-binary=:all:",)
    needed = ("--require-hashes", "--requirement", _CONTEXT / "requirements.txt")
    output([uv(), "pip", "install", *options, *wheels, *needed], cwd=paths.CHECKOUT, timeout=600)
    if PROJECT.adopted and PROJECT.code.exists() and author_code.is_package(PROJECT.root):
        output([uv(), "pip", "install", *options, PROJECT.root], cwd=paths.CHECKOUT, timeout=600)
    shutil.rmtree(target / "bin", ignore_errors=True)
    for record in target.glob("*.dist-info/RECORD"):  # hashes scripts with paths of here
        lines = record.read_text().splitlines(keepends=True)
        record.unlink()  # it may be a link into uv's cache
        record.write_text("".join(line for line in lines if not line.startswith("bin/")))


def uv() -> str:
    """Return the program uv: this environment's, if it has one."""
    return shutil.which("uv", path=Path(sys.executable).parent) or "uv"


def _dependencies() -> list[str]:
    """Return the names of what the operator's own pyproject.toml says that it needs."""
    file = PROJECT.root / "pyproject.toml"
    about = reading.shaped(reading.toml(file).get("project", {}), written.Project, file)
    needs = about.get("dependencies", [])
    return [match[0] for need in needs if (match := re.match(r"[\w.-]+", need))]


def requirements() -> str:
    """Return what the operator needs, with hashes; raise KitError where nothing locks it."""
    if PROJECT.adopted and PROJECT.adopted.requirements:
        file = PROJECT.root / PROJECT.adopted.requirements
        if file.name == "uv.lock":
            return exported(file, "--no-dev", "--no-emit-local")
        return _of_poetry(file) if file.name == "poetry.lock" else _hashed(file)
    for folder in (paths.CHECKOUT, *paths.CHECKOUT.parents):
        # That of an adopted operator, which PROJECT does not name, may be for anything.
        if (lock := folder / paths.LOCK.name).is_file() and not PROJECT.adopted:
            return locked.part(reading.text(lock), *_dependencies())
        if (folder / "uv.lock").is_file():
            return exported(folder / "uv.lock", "--no-dev", "--no-emit-local")
    raise KitError(
        f"{paths.CHECKOUT}: there is no uv.lock, which says what the image installs; `uv lock` "
        "writes it"
    )


def exported(lock: Path, *options: str) -> str:
    """Return what a uv.lock pins, as `uv export` prints it, always with hashes.

    uv records none of a file that it found by a path, as UV_FIND_LINKS gives one. Raise KitError
    where such a file is gone.
    """
    command = (uv(), "export", "--quiet", "--frozen", "--no-emit-project", *options)
    text = output(command, cwd=lock.parent, timeout=120)
    for package in reading.toml(lock).get("package", []):
        pin = f"{package['name']}=={package.get('version')}"
        files = _files(package, lock.parent)
        if gone := [file for file in files if not file.is_file()]:
            raise KitError(f"{lock} has {pin} from {gone[0]}, which is gone; build it again")
        hashes = "".join(
            f" \\\n    --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
            for file in files
        )
        text = re.sub(rf"^{re.escape(pin)}(?: .*)?$", rf"\g<0>{hashes}", text, flags=re.MULTILINE)
    return text


def _files(package: dict[str, Any], home: Path) -> list[Path]:
    """Return the files that a package of uv.lock has by their paths and without hashes."""
    archives = [*package.get("wheels", []), package.get("sdist", {})]
    folder = home / package["source"].get("registry", "")
    return [folder / each["path"] for each in archives if "path" in each and "hash" not in each]


def _of_poetry(file: Path) -> str:
    """Return what a lock of poetry's says that an operator needs when it runs."""
    lines = []
    for package in reading.toml(file).get("package", ()):
        if package.get("optional") or "main" not in package.get("groups", ["main"]):
            continue
        if package.get("source", {}).get("type", "legacy") != "legacy":
            raise KitError(
                f"{file}: {package['name']} is not from a package index; name a requirements.txt "
                "that `poetry export` writes"
            )
        markers = package.get("markers", "")
        marker = markers.get("main", "") if isinstance(markers, dict) else markers
        hashes = "".join(f" --hash={each['hash']}" for each in package.get("files", ()))
        pin = f"{package['name']}=={package['version']}"
        lines.append(f"{pin}{marker and f' ; {marker}'}{hashes}\n")
    return "".join(lines)


def _hashed(file: Path) -> str:
    """Return a requirements.txt with the hashes of all that it needs."""
    if "--hash=" in (text := reading.text(file)):
        return text
    python = ("--python-version", versions.PYTHON, "--python-platform", "linux")
    options = ("--quiet", "--generate-hashes", *python, file)
    needed = output([uv(), "pip", "compile", *options], cwd=paths.CHECKOUT, timeout=300)
    # The repository's own package, for which a requirements.txt says `-e .`, is installed itself.
    return re.sub(r"^(-e |[./]|\S+ @ file:).*\n(?: +.*\n)*", "", needed, flags=re.MULTILINE)
