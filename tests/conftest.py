"""What every test stands on: an environment that a user's own settings do not reach."""

import gc

from hypothesis import HealthCheck, settings

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import steps

steps.scrub_for_tests(PROJECT.environment)

# How long an example takes says nothing about the code, but how busy the machine is.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what all tests share: it is a tenth of their work."""
    gc.freeze()
