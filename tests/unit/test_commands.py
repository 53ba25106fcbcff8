"""The commands of this repository, their variables, PROJECT, and the tier `matrix`."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hack import own_tiers
from hack.__main__ import PROGRAM
from kopf_kit.__main__ import PROGRAM as KIT
from kopf_kit.program import Program
from kopf_kit.rig import control_plane, paths, versions
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


REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the tests: those on the newest Kubernetes fail. Return what they ran on."""
    runs: list[str] = []
    monkeypatch.setattr(own_tiers, "_FAULTS", {"operator": Path("tests/faults")})

    def fake(minor: str, report: Path, folder: Path, _: list[str]) -> int:
        runs.append(f"{minor} {folder.parent.name}")
        failed = int(minor == versions.NEWEST)
        cases = ["<testcase/>"] * (9 - failed) + ["<testcase><failure/></testcase>"] * failed
        report.write_text(REPORT.format("".join(cases)))
        return failed

    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(own_tiers, "_build", lambda _: None)
    monkeypatch.setattr(own_tiers, "_on", fake)
    monkeypatch.delenv("KUBERNETES", raising=False)
    return runs


def test_each_version_has_a_line_and_one_failure_fails_them_all(
    runs: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert own_tiers.matrix([]) == 1

    lines = capfd.readouterr().err.partition("Kubernetes  server    tests\n")[2].splitlines()
    assert runs == [f"{minor} tests" for minor in versions.PROVED]
    assert [line.split()[:2] for line in lines] == [list(pair) for pair in versions.PROVED.items()]
    assert "9 passed in" in lines[0]
    assert "8 passed, 1 failed in" in lines[-1]


@pytest.mark.usefixtures("runs")
def test_a_run_that_is_killed_fails_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([-9, *[0] * (len(versions.PROVED) - 1)])
    monkeypatch.setattr(own_tiers, "_on", lambda *_: next(codes))

    assert own_tiers.matrix([]) == 137


def test_one_version_can_be_picked(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES", versions.NEWEST)

    own_tiers.matrix([])

    assert runs == [f"{versions.NEWEST} tests"]


def test_a_version_that_there_is_not_is_refused_with_those_that_there_are(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES", "1.20")

    with pytest.raises(KitError, match=f"KUBERNETES=1.20 .* use .*or {versions.NEWEST}"):
        own_tiers.matrix([])
    with pytest.raises(KitError):
        control_plane.chosen()
    assert runs == []


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
