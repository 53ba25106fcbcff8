"""hack.run: commands end in time, and failures say what happened, where, and what to do."""

import re
import threading
import time
from pathlib import Path

import pytest

from hack import run
from hack.run import HackError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (112, "1m52s")]
)
def test_time_is_written_as_people_do(seconds: float, text: str) -> None:
    assert run.elapsed(seconds) == text


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(HackError, match=r"(?s)exit code 3.*sh -c.*no such thing"):
        run.output(["sh", "-c", "echo no such thing >&2; exit 3"])


def test_a_command_that_is_missing_is_told_by_name() -> None:
    with pytest.raises(HackError, match="cannot run no-such-program"):
        run.output(["no-such-program"])


def test_a_command_without_end_is_ended_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"

    with pytest.raises(HackError, match="no end after 0s"):
        run.output(["sh", "-c", f"(sleep 1; touch {alive}) & sleep 60"], timeout=0.2)

    time.sleep(1.2)
    assert not alive.exists()


def test_an_answer_is_none_where_there_is_none() -> None:
    assert run.answer(["sh", "-c", "echo yes"]) == "yes"
    assert run.answer(["false"]) is None
    assert run.answer(["no-such-program"]) is None


def test_a_step_says_its_name_and_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    with run.step("Bake") as work:
        work.run(["echo", "details"], timeout=5)

    said = capsys.readouterr().err
    assert said.startswith("==> Bake\n")
    assert re.search(r"Bake: \d+s", said)
    assert "details" not in said
    assert "details" in work.log.read_text()


def test_a_step_that_fails_quotes_its_log_and_says_what_next() -> None:
    with pytest.raises(HackError) as failure, run.step("Bake") as work:
        work.run(["sh", "-c", "seq 100; echo burnt; exit 1"], timeout=5)

    said = str(failure.value)
    assert "Bake: failed after" in said
    assert "burnt" in said
    assert "\n    1\n" not in said
    assert str(work.log) in said
    assert "same command" in said


def test_a_failure_within_two_steps_is_told_once() -> None:
    with pytest.raises(HackError) as failure, run.step("Dinner"), run.step("Bake") as work:
        work.run(["false"], timeout=5)

    assert str(failure.value).count("failed after") == 1


def test_a_failure_ends_what_runs_beside_it() -> None:
    began = time.monotonic()

    def fail() -> None:
        time.sleep(0.3)
        raise HackError("no flour")

    with pytest.raises(HackError, match="no flour"):
        run.together(lambda: run.output(["sleep", "60"]), fail)

    assert time.monotonic() - began < 10
    assert run.output(["echo", "again"]) == "again\n"


def test_jobs_run_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=5)

    run.together(meet.wait, meet.wait)
