"""A control plane whose operator is the one that tests.chart.helm installs."""

import functools

from kopf_kit.testing import api_server
from kopf_kit.testing.api_server import CONTROLLERS
from tests.chart import helm

__all__ = ["CONTROLLERS", "OPERATOR", "running"]

OPERATOR = f"system:serviceaccount:{helm.NAMESPACE}:{helm.FULLNAME}"
running = functools.partial(api_server.running, users=(OPERATOR, api_server.OPERATOR))
