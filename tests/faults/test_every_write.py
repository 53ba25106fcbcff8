"""Each scenario of each operator here, with one fault at each single write of it."""

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from tests.faults.subjects import SUBJECTS

__all__ = ["SUBJECTS"]
