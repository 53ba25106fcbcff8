"""The conformance suite over each operator here."""

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403
from tests.faults.messages import SUBJECTS

__all__ = ["SUBJECTS"]
