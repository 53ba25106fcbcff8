"""kopf_kit.rig.tools: a part that is there is whole, and is made once."""

import multiprocessing
import threading
from pathlib import Path

import pytest

from kopf_kit.rig import tools
from kopf_kit.rig.run import KitError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kopf-kit"


def test_a_part_is_made_once_and_found_again() -> None:
    made = []

    def make(part: Path) -> None:
        made.append(part)
        (part / "program").write_text("v1")

    first = tools.part("tool", "v1", "abc", make)
    second = tools.part("tool", "v1", "abc", make)

    assert first == second
    assert (first / "program").read_text() == "v1"
    assert len(made) == 1


def test_another_version_or_recipe_is_another_part() -> None:
    parts = {
        tools.part("tool", version, recipe, lambda part: None)
        for version, recipe in [("v1", "abc"), ("v2", "abc"), ("v1", "def")]
    }

    assert len(parts) == 3


def test_a_part_that_fails_half_way_leaves_nothing(folder: Path) -> None:
    def fail(part: Path) -> None:
        (part / "half").write_text("")
        raise KitError("the compiler says no")

    with pytest.raises(KitError, match="compiler"):
        tools.part("tool", "v1", "abc", fail)

    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_what_a_killed_run_left_is_removed_and_not_used(folder: Path) -> None:
    left_over = folder / ".tool-v1-abc.x7"
    left_over.mkdir(parents=True)
    (left_over / "half").write_text("")

    part = tools.part("tool", "v1", "abc", lambda part: (part / "whole").touch())

    assert [path.name for path in part.iterdir()] == ["whole"]
    assert not left_over.exists()


def test_two_runs_at_the_same_time_make_a_part_once() -> None:
    made = []
    started, go_on = threading.Event(), threading.Event()

    def make(part: Path) -> None:
        made.append(part)
        started.set()
        go_on.wait(5)

    runs = [threading.Thread(target=tools.part, args=("tool", "v1", "abc", make)) for _ in range(2)]
    runs[0].start()
    started.wait(5)
    runs[1].start()
    go_on.set()
    for run in runs:
        run.join(5)

    assert len(made) == 1


def test_a_lock_that_is_held_too_long_is_told_with_its_file() -> None:
    with (
        tools.lock("cluster"),
        pytest.raises(KitError, match=r"working on cluster .*lock/cluster"),
        tools.lock("cluster", patience=0),
    ):
        pass


def test_a_lock_ends_with_the_process_that_held_it() -> None:
    def hold_and_die() -> None:
        tools.lock("cluster").__enter__()

    process = multiprocessing.get_context("fork").Process(target=hold_and_die)
    process.start()
    process.join(10)

    with tools.lock("cluster", patience=0):
        pass


def test_a_digest_tells_contents_and_names_apart(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    (recipe / "deep").mkdir(parents=True)
    (recipe / "deep" / "file").write_text("one")
    before = tools.digest("text", recipe)

    assert tools.digest("text", recipe) == before
    assert tools.digest("texts", recipe) != before
    (recipe / "deep" / "file").rename(recipe / "deep" / "other")
    assert tools.digest("text", recipe) != before
