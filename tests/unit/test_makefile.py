"""Documents name commands that `make` lists, and some of those commands in parts."""

import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
MAKEFILE = (CHECKOUT / "Makefile").read_text()
#: The documented targets.
TARGETS = set(re.findall(r"^([a-z0-9-]+):.*?## ", MAKEFILE, re.MULTILINE))


DOCUMENTS = sorted(
    str(file.relative_to(CHECKOUT))
    for folder in (CHECKOUT, CHECKOUT / "docs")
    for file in folder.glob("*.md")
)


def named(document: str) -> set[str]:
    """Return the targets that a document names, of this Makefile."""
    text = (CHECKOUT / document).read_text()
    commands = re.findall(r"`make ([^`]+)`|^\$ make ([^#\n]+)", text, re.MULTILINE)
    typed = (re.sub(r'"[^"]*"', "", "".join(command)) for command in commands)
    words = {word for command in typed if "-C " not in command for word in command.split()}
    return {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_targets_that_there_are(document: str) -> None:
    assert named(document) <= TARGETS


@pytest.mark.parametrize("language", ["", ".ko"])
def test_the_first_page_names_the_two_commands(language: str) -> None:
    # In the repository of `kopf-kit new`; in the mark of a table; in the folder of an example.
    others = {"check", "bench", "deploy"}
    assert named(f"README{language}.md") - others == {
        "demo",
        "test",
        "docker-build",
        "docker-push",
    }
    assert named("docs/development.md") >= {"check", "test", "test-all", "run"}


def test_make_alone_lists_them_all() -> None:
    listed = subprocess.check_output(["make"], cwd=CHECKOUT, text=True, timeout=300)

    assert {name for name in TARGETS if f"\n  {name:<15} " in listed} == TARGETS
    assert len(TARGETS) <= 30  # what is not for most people is an option of these


@pytest.mark.parametrize("goal", ["generate", "verify"])
def test_of_several_operators_the_first_that_fails_fails_the_command(
    goal: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$2" = kopf_kit ] || exit 0\necho "$PROJECT"; test "$PROJECT" = last\n'
    )
    python.chmod(0o755)
    command = ["make", goal, f"PY={python}", "PROJECTS=first last", "READY="]

    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "first\n")
