"""Two replicas of each operator here, and what may happen to the one that leads."""

from kopf_kit.testing.conformance.replicas import *  # noqa: F403 (the tests)
from tests.faults.subjects import SUBJECTS

__all__ = ["SUBJECTS"]
