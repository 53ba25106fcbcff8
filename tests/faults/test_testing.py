"""The test library as an author has it: in a folder without PROJECT, and beside other tests."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit.rig import control_plane, paths
from kopf_offline import golang
from tests.support.console import blocks

PAGE = paths.CHECKOUT / "docs" / "testing.md"
#: The operator of the page's example, and the listings of the page: a subject, and tests.
OPERATOR = paths.CHECKOUT / "packages" / "kopf-runtime" / "tests" / "runtime" / "greetings.py"
LISTINGS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SUBJECT, *TESTS = LISTINGS
_ON_CLUSTERS = re.compile(r"\(cluster\)")


def run(folder: Path, text: str, *options: str) -> str:
    """Run pytest in a folder with one module; return what it printed."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


#: Types the commands of the first page, each once the operator is done, and keeps the output.
_TYPED = """
import json, os, subprocess
import greetings, pytest
from kopf_kit.testing import Parent

class Greetings(Parent):
    program, manager = (greetings.__file__,), greetings.manager

    def spec(self, text):
        return {"name": text}

SUBJECTS = (Greetings(),)
subject = pytest.fixture(lambda: SUBJECTS[0])
subjects = pytest.fixture(lambda: SUBJECTS, scope="session")

async def test_it(here, operator, api_server):
    flags = f"--kubeconfig={api_server.kubeconfig('admin')} --namespace={here.namespace}"
    with open("typed.json") as file:
        commands = json.load(file)
    printed = []
    for command in commands:
        command = command.replace("kubectl", f"{os.environ['KUBECTL']} {flags}", 1)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30)
        printed.append((done.stdout + done.stderr).replace(here.namespace, "default").strip())
        await here.converges({"hello": "Seoul"})
    with open("printed.json", "w") as file:
        json.dump(printed, file)
"""


def test_the_first_page_shows_what_its_operator_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (paths.CHECKOUT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    steps = next(blocks(text)).steps
    (tmp_path / "greetings.py").write_text(code)
    (tmp_path / "typed.json").write_text(json.dumps([step.command for step in steps]))
    monkeypatch.setenv("KUBECTL", shlex.quote(str(golang.program("kubectl"))))

    said = run(tmp_path, _TYPED)

    assert "1 passed" in said, said
    printed = json.loads((tmp_path / "printed.json").read_text())
    age = re.compile(r"\b\d+s")
    assert [age.sub("5s", each) for each in printed] == [step.output for step in steps]


@pytest.mark.long
def test_the_examples_of_the_page_pass_in_a_folder_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With envtest's two programs in its folder, and the third on the PATH."""
    assets, path = tmp_path / "assets", tmp_path / "path"
    for name, folder in zip(control_plane.PARTS, (assets, assets, path), strict=True):
        folder.mkdir(exist_ok=True)
        program = f'#!/bin/sh\ntouch "$0-used"\nexec "{golang.program(name)}" "$@"\n'
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("KUBERNETES", raising=False)
    (tmp_path / "greetings.py").write_text(OPERATOR.read_text())
    (tmp_path / "subjects.py").write_text(SUBJECT)
    listings = [test for test in TESTS if not _ON_CLUSTERS.search(test)]
    for number, listing in enumerate(listings):
        (tmp_path / f"test_{number}.py").write_text(listing)
    few = ("-k", "goes_on_after or answer_is or back_again")

    said = run(tmp_path, "", "-rA", *few)

    passed = re.findall(r"^PASSED test_(\d)\.py", said, re.MULTILINE)
    assert {*passed} == {str(number) for number in range(len(listings))}, said
    assert not re.search(r"\d (failed|error)", said), said
    used = {file.name.removesuffix("-used") for file in tmp_path.glob("*/*-used")}
    assert used == {*control_plane.PARTS}
