"""What an author may declare, record and ask for, on a real API server and under faults."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import kopf_runtime as kr
from faults import booths, holders
from faults.worlds import client_of
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import World
from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.kinds import CONFIG_MAP
from runtime.support.running import NAME, operating

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


SUBJECT = Booths()


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
    await prepare(api, SUBJECT)
    await every_write.test_killed_after_every_single_write(api, SUBJECT, scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["create", "edit"])
async def test_what_is_read_indexed_and_checked_outlives_a_fault_at_every_single_write(
    here: World, scenario: str
) -> None:
    await every_write.test_a_fault_at_every_single_write(here, SUBJECT, scenario)


SITE = kr.Kind("records.example.dev", "v1", "sites", "Site")


async def test_what_is_recorded_has_a_manager_of_its_own_and_outlives_a_careless_version(
    cluster: Cluster,
) -> None:
    await cluster.put(holders.definition(SITE, text={"type": "string"}))
    await cluster.serves(SITE)
    namespace, fields = await cluster.new_namespace(), dict[str, Any](shown=1)
    meta = {"name": "one"}
    site = {"apiVersion": SITE.api_version, "kind": "Site", "metadata": meta, "spec": {"text": "a"}}
    await cluster.ask("POST", SITE.path(namespace), site)
    sites = kr.Controller(SITE, kr.Resource, lambda _: None)

    @sites.sync(every=3600)
    async def sync(_: kr.Resource, context: kr.CallContext[kr.Settings]) -> None:
        if "begun" not in context.stored:
            await context.record({"begun": {"member": "m-1"}})

    sites.status(lambda *_: kr.Status(True, "Fine", "It is begun.", fields))

    async def until_it_says(words: str) -> dict[str, Any]:
        async with (
            asyncio.timeout(60),
            client_of(cluster, Client) as client,
            operating(client, sites, settings=kr.Settings(namespaces=(namespace,))),
        ):
            while True:
                found = await cluster.ask("GET", SITE.path(namespace, "one"))
                conditions = found.get("status", {}).get("conditions", [])
                if any(words in condition["message"] for condition in conditions):
                    return found
                await asyncio.sleep(0.05)

    found = await until_it_says("It is begun.")
    owned = {
        entry["manager"]: set(entry["fieldsV1"]["f:status"]) - {"."}
        for entry in found["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    }
    shown = {"f:conditions", "f:observedGeneration", "f:shown"}
    assert owned == {f"{NAME}-record": {"f:begun"}, NAME: shown}

    fields["begun"] = None
    found = await until_it_says("it would overwrite what context.record has stored")
    assert found["status"]["begun"] == {"member": "m-1"}
