"""The packed plugin is one file, the same each time, that an old Python runs."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit import kubectl as common
from kopf_kit.cli.deploy import install_plugin
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import packed

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
    file = tmp_path_factory.mktemp("plugin") / packed.PROGRAM
    file.write_bytes(packed.program())
    file.chmod(0o755)
    return file


def test_each_python_runs_it(program: Path) -> None:
    for python in pythons():
        version = subprocess.check_output([python, program, "--version"], text=True, timeout=300)
        # It reads every module, and all that is known.
        known = subprocess.check_output([python, program, "explain"], text=True, timeout=300)

        assert version == f"{packed.PROGRAM} {PROJECT.version}\n", python
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
    assert first == tmp_path / ".local" / "bin" / packed.PROGRAM
    assert os.access(first, os.X_OK)

    elsewhere = tmp_path / "bin"
    elsewhere.mkdir()
    shutil.copy2(program, elsewhere)
    monkeypatch.setenv("PATH", f"{elsewhere}:/usr/bin:/bin")
    (elsewhere / packed.PROGRAM).write_text("#!/bin/sh\n")
    again = install_plugin(program)
    assert again == elsewhere / packed.PROGRAM, "the one that kubectl finds is replaced"
    assert again.read_bytes() == program.read_bytes()
