"""hack.rig.durations: the estimate is of this machine, as far as it is known."""

from pathlib import Path

import pytest

from hack.rig import durations


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def _plan() -> durations.Plan:
    return durations.Plan({"Download": 10.0, "Unpack": 0.0, "Compile": 100.0, "Test": 20.0})


def test_what_is_left_is_the_rest_of_the_step_and_those_that_follow() -> None:
    assert _plan().left("Compile", took=30, fraction=None) == 70 + 20


def test_a_machine_that_was_half_as_quick_so_far_stays_so() -> None:
    plan = _plan()
    plan.done("Download", 20)

    assert plan.left("Compile", took=30, fraction=None) == 2 * 100 - 30 + 2 * 20


def test_how_far_a_step_is_tells_more_than_what_it_took_elsewhere() -> None:
    assert _plan().left("Compile", took=50, fraction=0.25) == pytest.approx(150 + 20 * 200 / 100)


def test_a_step_that_takes_longer_than_ever_is_about_to_end() -> None:
    assert _plan().left("Compile", took=500, fraction=None) == 20


@pytest.mark.parametrize("title", ["Unpack", "Sweep"])
def test_a_step_beside_a_longer_one_tells_nothing(title: str) -> None:
    assert _plan().left(title, took=5, fraction=None) is None


def test_what_a_step_took_here_counts_the_next_time() -> None:
    durations.remember("Test v1.2", 60)

    assert _plan().left("Compile", took=0, fraction=None) == 100 + 60


def test_durations_that_cannot_be_read_are_no_hindrance(tmp_path: Path) -> None:
    durations.remember("Test", 60)
    (tmp_path / "message-operator" / "durations.json").write_text("{")

    assert durations.remembered() == {}
