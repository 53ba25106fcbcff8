"""kopf_kit.rig.steps: who waits sees what runs, how far it is, and why it failed."""

import re
import threading
import time
from pathlib import Path

import pytest

from kopf_kit.rig import run, steps
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_step_says_its_name_and_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    with steps.step("Bake") as work:
        work.run(["echo", "details"], timeout=60)

    said = capsys.readouterr().err
    assert said.startswith("==> Bake\n")
    assert re.search(r"Bake: \d+s", said)
    assert "details" not in said
    assert "details" in work.log.read_text()


def test_a_step_that_fails_quotes_its_log_and_says_what_next() -> None:
    with pytest.raises(KitError) as failure, steps.step("Bake") as work:
        work.run(["sh", "-c", "seq 100; echo burnt; exit 1"], timeout=60)

    said = str(failure.value)
    assert "Bake: failed after" in said
    assert "burnt" in said
    assert "\n    1\n" not in said
    assert str(work.log) in said
    assert "same command" in said


def test_a_failure_within_two_steps_is_told_once() -> None:
    with pytest.raises(KitError) as failure, steps.step("Dinner"), steps.step("Bake") as work:
        work.run(["false"], timeout=60)

    assert str(failure.value).count("failed after") == 1


def test_a_failure_ends_what_runs_beside_it() -> None:
    began = time.monotonic()

    def fail() -> None:
        time.sleep(0.3)
        raise KitError("no flour")

    with pytest.raises(KitError, match="no flour"):
        steps.together(lambda: run.output(["sleep", "600"]), fail)

    assert time.monotonic() - began < 300
    assert run.output(["echo", "again"]) == "again\n"


def test_jobs_run_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=60)

    steps.together(meet.wait, meet.wait)


def test_a_long_step_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "HEARTBEAT", 0.05)

    with steps.step("Bake") as work:
        work.began -= 90
        work.fraction = lambda: 0.75
        while "…" not in (said := capsys.readouterr().err):
            pass

    assert "Bake … 1m30s, 75 %" in said
