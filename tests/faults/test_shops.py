"""F4: the suite passes for a claim that stays, a Service per object and a unique value.

This file is run as the operator, too.
"""

from collections.abc import Iterable
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import world


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: str = ""
    host: str = ""


@kr.custom_resource("example.dev", "v1", "shops")
class Shop(kr.Resource):
    """A Shop has a claim, a ConfigMap and a Service."""

    spec: Spec = Spec()


manager = kr.Manager("shop-operator", kr.Settings)
controller = manager.controller_for(Shop)
controller.owns(kr.kinds.CONFIG_MAP)
controller.owns(kr.kinds.PERSISTENT_VOLUME_CLAIM, deletion_policy=kr.RETAIN)
controller.owns(kr.kinds.SERVICE)
controller.unique("host", lambda shop: [shop.spec.host])


@controller.desired
def desired(shop: Shop, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return the children."""
    name = {"name": shop.metadata.name}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    service = {"selector": name, "ports": [{"port": 80}]}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"t": shop.spec.text}}
    yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": name, "spec": claim}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": service}


SCENARIOS = ("create", "edit", "heal", "alter", "recreate", "delete")


class Shops(Parent):
    """The operator, with the one line that a unique value needs."""

    program, manager = (__file__,), manager

    def spec(self, text: str) -> Raw:
        return {"text": text}

    def spec_of(self, name: str, text: str) -> Raw:
        return {**self.spec(text), "host": name}


@pytest.mark.parametrize(
    "scenario", ["create", *(pytest.param(s, marks=pytest.mark.long) for s in SCENARIOS[1:])]
)
async def test_f4_an_operator_with_a_claim_a_service_and_a_unique_value_passes(
    cluster: Cluster, scenario: str
) -> None:
    await prepare(cluster, shop := Shops())
    if shop.writes[scenario]:
        await every_write.test_killed_after_every_single_write(cluster, shop, scenario)
    async with world(cluster, shop) as here:
        await every_write.test_a_fault_at_every_single_write(here, shop, scenario)


if __name__ == "__main__":
    raise SystemExit(manager.run())
