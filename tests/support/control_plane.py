"""A control plane whose operator is the one that tests.chart.helm installs."""

import functools

from kopf_kit.rig.control_plane import chosen
from kopf_kit.testing import api_server
from kopf_kit.testing.api_server import CONTROLLERS
from tests.chart import helm

__all__ = ["CONTROLLERS", "OPERATOR", "is_before", "running"]

OPERATOR = f"system:serviceaccount:{helm.NAMESPACE}:{helm.FULLNAME}"
running = functools.partial(api_server.running, users=(OPERATOR, api_server.OPERATOR))


def is_before(minor: int) -> bool:
    """Return whether the API server is older than that minor version of Kubernetes 1."""
    return int(chosen().removeprefix("1.")) < minor
