"""kopf_kit.rig.cache: a part that is there is whole, and is made once."""

import multiprocessing
import threading
from pathlib import Path

import pytest

from kopf_kit.rig import cache
from kopf_kit.rig.run import HackError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kopf-kit"


def test_a_part_is_made_once_and_found_again() -> None:
    made = []

    def make(part: Path) -> None:
        made.append(part)
        (part / "program").write_text("v1")

    first = cache.part("tool", "v1", "abc", make)
    second = cache.part("tool", "v1", "abc", make)

    assert first == second
    assert (first / "program").read_text() == "v1"
    assert len(made) == 1


def test_another_version_or_recipe_is_another_part() -> None:
    parts = {
        cache.part("tool", version, recipe, lambda part: None)
        for version, recipe in [("v1", "abc"), ("v2", "abc"), ("v1", "def")]
    }

    assert len(parts) == 3


def test_a_part_that_fails_half_way_leaves_nothing(folder: Path) -> None:
    def fail(part: Path) -> None:
        (part / "half").write_text("")
        raise HackError("the compiler says no")

    with pytest.raises(HackError, match="compiler"):
        cache.part("tool", "v1", "abc", fail)

    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_what_a_killed_run_left_is_removed_and_not_used(folder: Path) -> None:
    left_over = folder / ".tool-v1-abc.x7"
    left_over.mkdir(parents=True)
    (left_over / "half").write_text("")

    part = cache.part("tool", "v1", "abc", lambda part: (part / "whole").touch())

    assert [path.name for path in part.iterdir()] == ["whole"]
    assert not left_over.exists()


def test_two_runs_at_the_same_time_make_a_part_once() -> None:
    made = []
    started, go_on = threading.Event(), threading.Event()

    def make(part: Path) -> None:
        made.append(part)
        started.set()
        go_on.wait(5)

    runs = [threading.Thread(target=cache.part, args=("tool", "v1", "abc", make)) for _ in range(2)]
    runs[0].start()
    started.wait(5)
    runs[1].start()
    go_on.set()
    for run in runs:
        run.join(5)

    assert len(made) == 1


def test_a_lock_that_is_held_too_long_is_told_with_its_file() -> None:
    with (
        cache.lock("cluster"),
        pytest.raises(HackError, match=r"working on cluster .*lock/cluster"),
        cache.lock("cluster", patience=0),
    ):
        pass


def test_a_lock_ends_with_the_process_that_held_it() -> None:
    def hold_and_die() -> None:
        cache.lock("cluster").__enter__()

    process = multiprocessing.get_context("fork").Process(target=hold_and_die)
    process.start()
    process.join(10)

    with cache.lock("cluster", patience=0):
        pass


def test_a_digest_tells_contents_and_names_apart(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    (recipe / "deep").mkdir(parents=True)
    (recipe / "deep" / "file").write_text("one")
    before = cache.digest("text", recipe)

    assert cache.digest("text", recipe) == before
    assert cache.digest("texts", recipe) != before
    (recipe / "deep" / "file").rename(recipe / "deep" / "other")
    assert cache.digest("text", recipe) != before
