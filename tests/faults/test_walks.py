"""Walks over declared states, with each operator here."""

from kopf_kit.testing.conformance.walks import *  # noqa: F403 (the tests)
from tests.faults.subjects import SUBJECTS

__all__ = ["SUBJECTS"]
