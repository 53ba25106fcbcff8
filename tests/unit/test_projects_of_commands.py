"""`make … PROJECT=examples/memcached` is about that operator, or says that it cannot be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit.rig import paths

CHECKOUT = Path(__file__).parents[2]
MEMCACHED = "examples/memcached"
VERSION = f"{MEMCACHED}/operator/memcached_operator/__init__.py"


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


def test_a_raised_version_is_that_of_the_operator_that_is_meant(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in subprocess.check_output(listed, cwd=CHECKOUT, text=True).split("\0"):
        if name and (CHECKOUT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, copy / name)
    git = ("git", "-C", copy)
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    environment = {
        **os.environ,
        "PROJECT": MEMCACHED,
        "PYTHONPATH": paths.python_path(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    subprocess.run(
        [sys.executable, "-m", "kopf_kit", "bump", "7.8.9"],
        cwd=copy,
        env=environment,
        check=True,
        capture_output=True,
    )

    changed = set(subprocess.check_output([*git, "diff", "--name-only"], text=True).split())
    assert changed - {f"{MEMCACHED}/olm/csv.yaml"} == {VERSION}
    assert '__version__ = "7.8.9"\n' in (copy / VERSION).read_text()
