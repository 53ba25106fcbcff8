"""The operators under faults."""

from kopf_kit.testing.under_test import Parent
from tests.faults.greetings import Greetings
from tests.faults.messages import Messages

MESSAGE = Messages()
#: The tier `faults` tries the whole suite on the first, and the quick part of it on the others;
#: The tier `faults-long` tries the rest.
SUBJECTS: tuple[Parent, ...] = (MESSAGE, Greetings())
