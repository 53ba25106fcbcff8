"""F4: the suite passes for a claim that stays, a Service per object and a unique value."""

import pytest

from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import world
from tests.faults import shops

SCENARIOS = ("create", "edit", "heal", "alter", "recreate", "delete")


class Shops(Parent):
    """The operator of shops.py, with the one line that a unique value needs."""

    program, manager = (shops.__file__,), shops.manager

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
