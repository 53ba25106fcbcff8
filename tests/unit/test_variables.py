"""The commands of `kopf-kit` and of this repository alone, and variables that mean nothing."""

import os
import subprocess
import sys

import click
import pytest

from hack import own_tiers
from hack.__main__ import PROGRAM
from kopf_kit.__main__ import PROGRAM as KIT
from kopf_kit.program import Program
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError


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


@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", "inf"])
def test_minutes_that_are_none_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINUTES", value)

    with pytest.raises(KitError, match=f"^MINUTES={value} is not valid. Use a number of minutes"):
        own_tiers.minutes()


def test_the_commands_are_never_tested_on_an_existing_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLUSTER", "existing")

    with pytest.raises(KitError, match="they only run on one that is made here"):
        own_tiers.make([])


@pytest.mark.parametrize(
    ("command", "variable", "code", "said"),
    [
        ("hack soak", "MINUTES=x", 1, "MINUTES=x is not valid."),
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
