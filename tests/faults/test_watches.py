"""What is watched and listed goes wrong, with each operator here."""

from kopf_kit.testing.conformance.watches import *  # noqa: F403 (the tests)
from tests.faults.subjects import SUBJECTS

__all__ = ["SUBJECTS"]
