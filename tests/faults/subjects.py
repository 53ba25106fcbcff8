"""The operators under faults."""

import pytest

from tests.faults.greetings import Greetings
from tests.faults.memcacheds import Memcacheds
from tests.faults.messages import Messages
from tests.support.faults.subject import Subject

MESSAGE, MEMCACHED = Messages(), Memcacheds()
#: Each further operator; `make faults` tries the quick part of the suite on them, and
#: `make faults-long` the rest.
OTHERS: tuple[Subject, ...] = (Greetings(), MEMCACHED)
SUBJECTS = (MESSAGE, *OTHERS)

#: Runs a test with each operator, or with the Message, and with the others only where time is had.
on_each = pytest.mark.parametrize("subject", SUBJECTS, ids=str)
on_each_in_time = pytest.mark.parametrize(
    "subject", [MESSAGE, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)], ids=str
)
