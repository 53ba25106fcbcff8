"""The conformance suite over an operator of children that hold data."""

from faults.holders import SUBJECTS
from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403

__all__ = ["SUBJECTS"]
