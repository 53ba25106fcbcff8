"""Several runs of pytest, of `make e2e` and the tier `matrix`, end with one exit code."""

import pytest

from kopf_kit.commands import pytest_runs


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([0, 5], 0),
        ([5, 1], 1),
        ([5, 5], 5),
        ([-9, 0, 0], 137),
        ([-15, 5], 143),
    ],
)
def test_a_run_that_fails_or_is_killed_fails_all_and_one_without_tests_does_not(
    codes: list[int], result: int
) -> None:
    assert pytest_runs.result(codes) == result
