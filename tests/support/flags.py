"""The operator's flags, read as the operator reads them."""

from collections.abc import Mapping, Sequence

from kopf_runtime.declaring import settings
from message_operator.operator import manager
from message_operator.settings import Settings


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings from a command line and an environment."""
    return settings.parse(manager.program, Settings, arguments, environment)
