"""The commands of this repository, their variables and PROJECT, and what documents say of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hack.__main__ import PROGRAM
from kopf_kit.__main__ import PROGRAM as KIT
from kopf_kit.program import Program
from kopf_kit.rig.paths import CHECKOUT


@pytest.mark.parametrize(
    ("program", "name"),
    [(program, name) for program in (KIT, PROGRAM) for name in program.entries],
    ids=str,
)
def test_each_command_is_there_and_has_help(program: Program, name: str) -> None:
    context = click.Context(program)
    command = program.get_command(context, name)

    assert command is not None
    assert command.get_help(click.Context(command, info_name=name, parent=context))
    assert len(program.entries[name].help) <= 50  # a line of the list


def make(*arguments: str, check: bool = False) -> "subprocess.CompletedProcess[str]":
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=check, timeout=300
    )


def test_it_ends_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench"],
        cwd=CHECKOUT,
        capture_output=True,
        env={**os.environ, "PROJECT": "examples/none"},
        text=True,
        timeout=300,
    )

    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert "examples/none/PROJECT: No such file or directory" in line


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ([], []),
        (["IMAGES=pull", "KIND_CLUSTER_NAME=other", "MINUTES=1", "ARGS=-k a"], []),
        (["IMAGE=pull", "IMAGES=pull", "REGISTERY=a b"], ["IMAGE", "REGISTERY"]),
    ],
)
def test_a_misspelt_variable_is_warned_of(given: list[str], unknown: list[str]) -> None:
    assert sorted(make(*given, check=True).stderr.splitlines()) == [
        f"make: warning: no command here has a variable {name}; it only goes into the environment"
        for name in unknown
    ]


MEMCACHED = "PROJECT=examples/memcached"


@pytest.mark.parametrize("goal", ["demo", "release", "bench", "sabotage"])
def test_a_command_that_cannot_be_about_another_operator_says_so(goal: str) -> None:
    ended = make(goal, MEMCACHED)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"make: {MEMCACHED} cannot be used here: `make {goal}` is" in ended.stderr


@pytest.mark.parametrize(
    ("goal", "command"),
    [(goal, goal) for goal in ("bump", "push", "run", "deploy", "undeploy", "install", "plugin")]
    + [(goal, goal) for goal in ("check", "test", "test-all", "e2e")]
    + [("docker-build", "image build"), ("docker-push", "image push")],
)
def test_each_other_command_hears_which_operator_is_meant(goal: str, command: str) -> None:
    printed = make("--dry-run", goal, MEMCACHED).stdout

    assert f"{MEMCACHED} .venv/bin/python -m kopf_kit {command}" in printed


# --- what documents say of them -------------------------------------------------------------------

#: The documented targets.
TARGETS = set(
    re.findall(r"^([a-z0-9-]+):.*?## ", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
)
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
    listed = make(check=True).stdout

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

    ended = make(goal, f"PY={python}", "PROJECTS=first last", "READY=")

    assert (ended.returncode, ended.stdout) == (2, "first\n")
