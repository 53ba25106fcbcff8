"""What an author may declare beside children and `sync`, on a real API server and under faults."""

from collections.abc import Mapping

import pytest

import kopf_runtime as kr
from faults import booths
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import CONFIG_MAP

pytestmark = pytest.mark.api

#: What a Booth reads: a value, and its base64.
KEY, ENCODED = "open", "b3Blbg=="


class Booths(Parent):
    """The operator of booths.py; the suite looks at the ConfigMap of a Booth."""

    program = (booths.__file__,)
    manager = booths.manager
    owned = (CONFIG_MAP,)

    def spec(self, text: str) -> Raw:
        return {"text": text}

    def rights(self, namespace: str | None) -> list[Raw]:
        """Return its rights, and what a Booth reads."""
        meta = {"namespace": namespace}
        return [
            *super().rights(namespace),
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {**meta, "name": "key"},
                "stringData": {"key": KEY},
            },
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {**meta, "name": "note", "annotations": {"note": "n"}},
            },
        ]

    def plan(self, found: Raw, text: str) -> list[Raw]:
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"booth-{found['metadata']['name']}"},
                "data": {"text": text, "key": ENCODED, "note": "n", "checked": text},
            }
        ]

    @property
    def writes(self) -> Mapping[str, int]:
        return {**super().writes, "create": 3, "edit": 3}


BOOTH = Booths()


@pytest.fixture
def subject() -> Parent:
    return BOOTH


def child(here: World, kind: kr.Kind, name: str = "hello") -> str:
    return kind.path(here.namespace, f"booth-{name}")


async def data(here: World, name: str = "hello") -> Raw:
    """Return the data of a Booth's ConfigMap."""
    found = await here.cluster.find(child(here, CONFIG_MAP, name)) or {}
    return found.get("data") or {}


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["edit", pytest.param("create", marks=pytest.mark.long)])
async def test_what_is_read_indexed_and_checked_outlives_a_kill_after_every_single_write(
    api: Cluster, scenario: str
) -> None:
    await prepare(api, BOOTH)
    await every_write.test_killed_after_every_single_write(api, BOOTH, scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["create", "edit"])
async def test_what_is_read_indexed_and_checked_outlives_a_fault_at_every_single_write(
    here: World, scenario: str
) -> None:
    await every_write.test_a_fault_at_every_single_write(here, BOOTH, scenario)


# --- reads, index, watches, check -----------------------------------------------------------------


# --- what comes and goes --------------------------------------------------------------------------
