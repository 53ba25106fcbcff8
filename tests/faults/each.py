"""Which of the operators in `subjects` a test runs with."""

import pytest

from tests.faults.subjects import SUBJECTS

_FIRST, *_OTHERS = SUBJECTS

#: Runs a test with each operator, or with the first, and with the others only where time is had.
on_each = pytest.mark.parametrize("subject", SUBJECTS, ids=str)
on_each_in_time = pytest.mark.parametrize(
    "subject", [_FIRST, *(pytest.param(one, marks=pytest.mark.long) for one in _OTHERS)], ids=str
)
