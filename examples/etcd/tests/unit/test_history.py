"""What the checks of a history find, and that they find nothing in a right one."""

from collections.abc import Callable

import pytest

from tests.faults.history import Operation, Write, settled, unexplained, wrong

HISTORY: list[Write] = [(2, "k", "a"), (3, "k", "b"), (4, "j", "c")]


def right() -> list[Operation]:
    return [
        Operation("k", "a", 0, 1, 2),
        Operation("k", "b", 2, 3, 3),
        Operation("k", None, 4, 5, 3, (3, "b")),
        Operation("j", "c", 6),  # nobody knows what has become of it
        Operation("k", "never", 6),
    ]


async def test_a_right_history_is_right() -> None:
    assert wrong(right(), HISTORY) == []
    assert await unexplained(right(), HISTORY) == ""


def stale(operations: list[Operation], _: list[Write]) -> None:
    operations[2].seen = (2, "a")


def backward(operations: list[Operation], _: list[Write]) -> None:
    operations[2].revision, operations[2].seen = 2, (2, "a")


def lost(_: list[Operation], history: list[Write]) -> None:
    del history[1]


def ghost(_: list[Operation], history: list[Write]) -> None:
    history.append((5, "k", "ghost"))


def twice(_: list[Operation], history: list[Write]) -> None:
    history.append((5, "k", "b"))


@pytest.mark.parametrize("harm", [stale, backward, lost, ghost, twice])
def test_what_is_wrong_is_found(harm: Callable[[list[Operation], list[Write]], None]) -> None:
    operations, history = right(), list(HISTORY)
    harm(operations, history)

    assert wrong(operations, history)


@pytest.mark.parametrize("harm", [stale, backward])
async def test_a_wrong_answer_is_found_without_revisions(
    harm: Callable[[list[Operation], list[Write]], None],
) -> None:
    operations = right()
    harm(operations, list(HISTORY))

    assert await unexplained(operations, HISTORY) == "k Illegal\n"


async def test_what_nobody_knows_may_have_taken_effect_later_but_not_before_it_began() -> None:
    operations = [Operation("k", "a", 0), Operation("k", None, 1, 2, 2, (2, "a"))]
    assert await unexplained(operations, HISTORY) == ""
    operations[1].start, operations[1].end = -2, -1
    assert await unexplained(operations, HISTORY) == "k Illegal\n"


def test_a_write_without_an_answer_never_took_effect_or_did_before_a_later_one_was_seen() -> None:
    operations = [Operation("k", "a", 0), Operation("k", "never", 0), Operation("k", "b", 2, 3, 3)]

    assert [(call.value, call.end) for call in settled(operations, HISTORY)] == [("a", 3), ("b", 3)]
