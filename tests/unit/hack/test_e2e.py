"""The end-to-end tests are several runs of pytest, and end with one exit code."""

import pytest

from hack.commands import e2e


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([0, 5], 0),
        ([5, 1], 1),
        ([5, 5], 5),
    ],
)
def test_what_one_run_selects_nothing_of_does_not_fail_the_other(
    codes: list[int], result: int
) -> None:
    assert e2e.result(codes) == result
