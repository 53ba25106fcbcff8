"""A control plane whose operator is the one that chart.helm installs."""

import functools

from chart import helm
from kopf_kit.testing import api_server
from kopf_kit.testing.api_server import CONTROLLERS

__all__ = ["CONTROLLERS", "OPERATOR", "running"]

OPERATOR = f"system:serviceaccount:{helm.NAMESPACE}:{helm.FULLNAME}"
running = functools.partial(api_server.running, users=(OPERATOR, api_server.OPERATOR))
