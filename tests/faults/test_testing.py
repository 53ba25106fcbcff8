"""The test library as an author has it: in a folder without PROJECT, and beside other tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit.rig import control_plane, paths
from kopf_offline import golang

PAGE = paths.KIT / "testing" / "README.md"
#: The operator of the page's example, and the listings of the page that are tests.
OPERATOR = paths.CHECKOUT / "examples" / "greeting" / "greetings.py"
LISTINGS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(folder: Path, text: str, *options: str) -> str:
    """Run pytest in a folder with one module; return what it printed."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


@pytest.mark.parametrize("listing", LISTINGS[1:])
def test_the_examples_of_the_page_pass_in_a_folder_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str
) -> None:
    for name in control_plane.PARTS:
        (tmp_path / name).symlink_to(golang.program(name))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.delenv("KUBERNETES", raising=False)
    (tmp_path / "greetings.py").write_text(OPERATOR.read_text())
    (tmp_path / "subjects.py").write_text(LISTINGS[0])
    few = ("-k", "answer_is_lost or there_and_back or token")

    said = run(tmp_path, listing, *few)

    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def test_the_plugin_imports_nothing_until_it_is_used(tmp_path: Path) -> None:
    text = (
        "import sys\ndef test(): assert not {'aiohttp', 'kopf', 'kopf_runtime'} & {*sys.modules}\n"
    )

    said = run(tmp_path, text, "-p", "no:kopf")

    assert "1 passed" in said, said


def test_the_suite_says_that_it_has_no_subjects(tmp_path: Path) -> None:
    said = run(tmp_path, "from kopf_kit.testing.conformance.walks import *\n")

    assert "has no SUBJECTS" in said
