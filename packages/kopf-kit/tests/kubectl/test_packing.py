"""The packed plugin is one file, the same each time, that an old Python runs; krew takes it."""

import ast
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kopf_kit import kubectl as common
from kopf_kit.cli.deploy import install_plugin
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import krew

MODULES = [*Path(common.__file__).parent.rglob("*.py")]
#: The oldest Python that the plugin runs on.
OLDEST = (3, 9)


def pythons() -> list[str]:
    """Return the Pythons of this machine from the oldest on; this one is always there."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 15)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [shutil.which(name) for name in names]
    found += [str(file) for name in names for file in pyenv.glob(f"*/bin/{name}")]
    works = [sys.executable]
    for path in filter(None, found):
        asked = subprocess.run([path, "-c", ""], capture_output=True, timeout=300, check=False)
        works += [path] * (asked.returncode == 0)
    return works


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed plugin."""
    file = tmp_path_factory.mktemp("plugin") / krew.PROGRAM
    file.write_bytes(krew.program())
    file.chmod(0o755)
    return file


def test_each_python_runs_it(program: Path) -> None:
    for python in pythons():
        version = subprocess.check_output([python, program, "--version"], text=True, timeout=300)
        # It reads every module, and all that is known.
        known = subprocess.check_output([python, program, "explain"], text=True, timeout=300)

        assert version == f"{krew.PROGRAM} {PROJECT.version}\n", python
        assert "NamespaceNotServed" in known, python


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.stem)
def test_its_modules_are_of_the_oldest_python_small_and_need_nothing_else(file: Path) -> None:
    source = file.read_text()
    tree = ast.parse(source, feature_version=OLDEST)

    imported = [
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    roots = {name.partition(".")[0] for name in imported}
    assert roots - sys.stdlib_module_names <= {"kopf_kit"}


def test_kubectl_finds_it_once_it_is_installed(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    first = install_plugin(program)
    assert first == tmp_path / ".local" / "bin" / krew.PROGRAM
    assert os.access(first, os.X_OK)

    elsewhere = tmp_path / "bin"
    elsewhere.mkdir()
    shutil.copy2(program, elsewhere)
    monkeypatch.setenv("PATH", f"{elsewhere}:/usr/bin:/bin")
    (elsewhere / krew.PROGRAM).write_text("#!/bin/sh\n")
    again = install_plugin(program)
    assert again == elsewhere / krew.PROGRAM, "the one that kubectl finds is replaced"
    assert again.read_bytes() == program.read_bytes()


# --- krew -----------------------------------------------------------------------------------------


def test_krew_accepts_the_manifest() -> None:
    # What krew's ValidatePlugin asks for:
    # https://github.com/kubernetes-sigs/krew/blob/master/internal/index/validation/validate.go

    written = documents.load(krew.manifest())
    spec = written["spec"]

    assert set(written) == {"apiVersion", "kind", "metadata", "spec"}
    assert written["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert written["kind"] == "Plugin"
    assert re.fullmatch(r"[\w-]+", written["metadata"]["name"])
    assert set(spec) <= {
        "version",
        "shortDescription",
        "description",
        "caveats",
        "homepage",
        "platforms",
    }
    assert spec["version"] == f"v{PROJECT.version}"
    assert spec["shortDescription"]
    assert "\n" not in spec["shortDescription"]
    # Its index asks for a short one: https://krew.sigs.k8s.io/docs/developer-guide/develop/
    assert len(spec["shortDescription"]) <= 50
    for platform in spec["platforms"]:
        assert set(platform) <= {"selector", "uri", "sha256", "bin", "files"}
        assert platform["uri"].endswith((".zip", ".tar.gz"))
        assert re.fullmatch("[a-f0-9]{64}", platform["sha256"])
        expressions = platform["selector"]["matchExpressions"]
        assert {expression["key"] for expression in expressions} <= {"os", "arch"}


def test_the_archive_has_the_program_that_krew_links(program: Path, tmp_path: Path) -> None:
    krew.write(tmp_path)

    packed = (tmp_path / krew.ARCHIVE).read_bytes()
    assert hashlib.sha256(packed).hexdigest() in (tmp_path / krew.MANIFEST).read_text()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read(krew.PROGRAM) == program.read_bytes()
        assert archive.getinfo(krew.PROGRAM).external_attr >> 16 == 0o100755
        assert archive.read("LICENSE")
