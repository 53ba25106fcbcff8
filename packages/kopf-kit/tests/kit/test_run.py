"""kopf_kit.rig.run: commands end in time, and failures say what happened, where, and what to do."""

import time
from pathlib import Path

import pytest

from kopf_kit.rig import run
from kopf_kit.rig.run import KitError


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
    with pytest.raises(KitError, match=r"(?s)exit code 3.*sh -c.*no such thing"):
        run.output(["sh", "-c", "echo no such thing >&2; exit 3"])


def test_a_command_that_is_missing_is_told_by_name() -> None:
    with pytest.raises(KitError, match="cannot run no-such-program"):
        run.output(["no-such-program"])


def test_a_command_without_end_is_ended_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"

    with pytest.raises(KitError, match="timed out after 0s"):
        run.output(["sh", "-c", f"(sleep 4; touch {alive}) & sleep 60"], timeout=0.2)

    time.sleep(4.2)
    assert not alive.exists()


def test_an_answer_is_none_where_there_is_none() -> None:
    assert run.answer(["sh", "-c", "echo yes"]) == "yes"
    assert run.answer(["false"]) is None
    assert run.answer(["no-such-program"]) is None
