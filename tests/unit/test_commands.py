"""The commands of this repository, their variables, and PROJECT."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hack.__main__ import PROGRAM
from kopf_kit.__main__ import PROGRAM as KIT
from kopf_kit.program import Program
from kopf_kit.rig import paths


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


@pytest.mark.parametrize(
    ("command", "variable", "code", "said"),
    [
        ("bench", "PROJECT=examples/none", 1, "examples/none/PROJECT: No such file or directory"),
    ],
)
def test_it_ends_in_one_line(command: str, variable: str, code: int, said: str) -> None:
    name, _, value = variable.partition("=")
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=paths.CHECKOUT,
        capture_output=True,
        env={**os.environ, name: value},
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == code
    assert done.stderr.strip().startswith("error: ")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ([], []),
        (["IMAGES=pull", "KIND_CLUSTER_NAME=other", "MINUTES=1", "ARGS=-k a"], []),
        (["IMAGE=pull", "IMAGES=pull", "REGISTERY=a b"], ["IMAGE", "REGISTERY"]),
    ],
)
def test_a_misspelt_variable_is_warned_of(given: list[str], unknown: list[str]) -> None:
    done = subprocess.run(
        ["make", *given],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    assert sorted(done.stderr.splitlines()) == [
        f"make: warning: no command here has a variable {name}; it only goes into the environment"
        for name in unknown
    ]


CHECKOUT = Path(__file__).parents[2]
MEMCACHED = "examples/memcached"


def make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "goal",
    [
        *("demo", "release", "bench", "sabotage"),
    ],
)
def test_a_command_that_cannot_be_about_another_operator_says_so(goal: str) -> None:
    ended = make(goal, f"PROJECT={MEMCACHED}")

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert f"make: PROJECT={MEMCACHED} cannot be used here: `make {goal}` is" in ended.stderr


@pytest.mark.parametrize(
    ("goal", "command"),
    [(goal, goal) for goal in ("bump", "push", "run", "deploy", "undeploy", "install", "plugin")]
    + [(goal, goal) for goal in ("check", "test", "test-all", "e2e")]
    + [("docker-build", "image build"), ("docker-push", "image push")],
)
def test_each_other_command_hears_which_operator_is_meant(goal: str, command: str) -> None:
    printed = make("--dry-run", goal, f"PROJECT={MEMCACHED}").stdout

    assert f"PROJECT={MEMCACHED} .venv/bin/python -m kopf_kit {command}" in printed
