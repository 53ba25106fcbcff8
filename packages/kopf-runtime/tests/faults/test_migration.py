"""What is stored in a former version is rewritten, on a real API server, and read in its etcd."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator
from signal import Signals
from typing import Any

import pytest

from faults.test_versions import ALPHA, NEWEST, Festivals, festival, until_converted
from faults.test_versions import flags as converting
from faults.worlds import is_before, scraped
from kopf_kit.testing.api_server import granted
from kopf_kit.testing.conformance.replicas import holds
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import ELECT, World

pytestmark = pytest.mark.api
flags = converting
MIGRATE = (*ELECT, "--migrate-storage")
#: What cannot be converted is shown in part. Kubernetes 1.29 stores that only once it is mended:
#: it checks a whole object, even where nothing changes.
LEFT = ("poisoned",) if is_before(30) else ()

#: What a tenant writes into an annotation that only a conversion should write.
FORGED = {f"{NEWEST.group}/conversion": '{"v1alpha1":{"whole":{}},"v1":{"whole":{"spec":{}}}}'}
SUBJECT = Festivals()
#: Its next release, which stores v1, and rewrites slowly what is stored.
NEXT = """
from dataclasses import replace
from kopf_runtime.declaring.declaration import _ATTRIBUTE, declared
from kopf_runtime.working import migration
from runtime import festivals

migration.RATE, migration.CRD_SETTLES = 30.0, 1.0
for type_, stored in ((festivals.Alpha, False), (festivals.Festival, True)):
    setattr(type_, _ATTRIBUTE, replace(declared(type_), storage=stored))
raise SystemExit(festivals.manager.run())
"""


async def store(here: World, version: str) -> None:
    """Have the API server store another version from now on."""
    versions = (await here.cluster.ask("GET", here.subject.crd))["spec"]["versions"]
    for declared in versions:
        declared["storage"] = declared["name"] == version
    await here.cluster.patch(here.subject.crd, {"spec": {"versions": versions}})


async def stored_versions(here: World) -> list[str]:
    found: list[str] = (await here.cluster.ask("GET", here.subject.crd))["status"]["storedVersions"]
    return found


async def in_etcd(here: World) -> dict[str, Raw]:
    """Return the objects as etcd has them, by their names."""
    key = f"/registry/{NEWEST.group}/{NEWEST.plural}/{here.namespace}/".encode()
    first, end = (base64.b64encode(bound).decode() for bound in (key, key[:-1] + b"0"))
    asked = {"key": first, "range_end": end}
    async with here.cluster.session.post(
        f"{here.cluster.plane.etcd}/v3/kv/range", json=asked
    ) as got:
        found = (await got.json()).get("kvs", [])
    objects = [json.loads(base64.b64decode(pair["value"])) for pair in found]
    return {raw["metadata"]["name"]: raw for raw in objects}


async def versions_in_etcd(here: World) -> Counter[str]:
    return Counter(raw["apiVersion"] for raw in (await in_etcd(here)).values())


async def until_rewritten(here: World, left: tuple[str, ...] = ()) -> None:
    """Wait until no objects but these are stored in the former version, and the CRD says so."""
    versions = {NEWEST.version, *([ALPHA.version] if left else [])}
    async with here.within(300, "rewritten"):
        while True:
            stored = await in_etcd(here)
            former = [
                name for name, raw in stored.items() if raw["apiVersion"] != NEWEST.api_version
            ]
            if (tuple(former), set(await stored_versions(here))) == (left, versions):
                return
            await asyncio.sleep(0.1)


def rights(user: str) -> list[Raw]:
    """Return what the operator needs for it, as the chart grants it."""
    crds, crd = "customresourcedefinitions", {"resourceNames": [str(NEWEST)]}
    extensions = {"apiGroups": ["apiextensions.k8s.io"], **crd}
    rules: list[Raw] = [
        {**extensions, "resources": [crds], "verbs": ["get"]},
        {**extensions, "resources": [f"{crds}/status"], "verbs": ["patch"]},
        {"apiGroups": [NEWEST.group], "resources": [NEWEST.plural], "verbs": ["list", "patch"]},
    ]
    return granted(f"{NEWEST.plural}-migration", rules, user, None)


@pytest.fixture
def number() -> int:
    """How many objects are stored in the older version."""
    return 10


@pytest.fixture
async def older(here: World, flags: Any, number: int) -> AsyncIterator[tuple[str, ...]]:
    """Have objects that are stored in a version which is not the present one any more.

    `poisoned` cannot be converted from that version, and a tenant claims the same of `forged`.
    """
    await here.grant(rights(here.subject.user))
    await here.start(*flags)
    await until_converted(here)
    path = ALPHA.path(here.namespace)
    for each in range(number):
        made = festival(ALPHA, f"f-{each:03}", stageName="main", opensAt=str(each % 24))
        await here.cluster.ask("POST", path, made)
    forged = festival(ALPHA, "forged", stageName="main", opensAt="9")
    forged["metadata"]["annotations"] = FORGED
    for made in (festival(ALPHA, "poisoned", stageName="poison"), forged):
        await here.cluster.ask("POST", path, made)
    async with here.within(60, "all with a status, so that nothing else is written"):
        while not all(raw.get("status") for raw in await here.cluster.items(path)):
            await asyncio.sleep(0.2)
    await here.operator.stop()
    here.operators.clear()
    await store(here, NEWEST.version)
    here.subject.program = ("-c", NEXT)
    yield flags
    await here.cluster.remove(NEWEST.path(here.namespace))
    await store(here, ALPHA.version)


@pytest.mark.long
@pytest.mark.parametrize("number", [150])
async def test_a_standby_goes_on_when_the_leader_is_killed_in_the_middle(
    here: World, older: tuple[str, ...], number: int
) -> None:
    """The standby also converts, for both: the leader lists what is stored as v1alpha1."""
    before = await in_etcd(here)
    assert {raw["apiVersion"] for raw in before.values()} == {ALPHA.api_version}
    leader = await here.launch(*MIGRATE)
    await holds(here, here.proxies[-1])
    port = free_port()
    await here.start(*MIGRATE, *older, f"--metrics-bind-address=127.0.0.1:{port}")
    async with here.within(300, "in the middle"):
        while (await versions_in_etcd(here))[NEWEST.api_version] < number / 3:
            await asyncio.sleep(0.05)
    assert not any("storage_migrator" in series for series in await scraped(port))
    await leader.stop(Signals.SIGKILL)
    assert (await versions_in_etcd(here))[ALPHA.api_version] > number / 5
    assert set(await stored_versions(here)) == {ALPHA.version, NEWEST.version}

    await until_rewritten(here, LEFT)

    after = await in_etcd(here)
    assert after.keys() == before.keys()
    for name, was in before.items():
        now = after[name]
        assert now["metadata"]["uid"] == was["metadata"]["uid"]
        if name != "poisoned":
            assert now["spec"]["hours"]["opens"] == was["spec"]["opensAt"]
        assert now["metadata"]["generation"] == was["metadata"]["generation"]
    found = await scraped(port)
    name, label = "festival_operator_storage_migrator", '{resource="festivals"}'
    assert found[f"{name}_migrated_objects_total{label}"] == len(after) - len(LEFT)
    assert found[f"{name}_remaining_objects{label}"] == len(LEFT)


async def test_what_cannot_be_converted_fails_alone_and_holds_nothing_up(
    here: World, older: tuple[str, ...], number: int
) -> None:
    await here.start(*MIGRATE, *older)
    listed = await here.cluster.items(NEWEST.path(here.namespace))
    assert len(listed) == number + 2
    # A claim that is stored already counts until somebody takes it away, for its object alone.
    later = festival(NEWEST, "later", stages=[{"name": "main"}])
    later["metadata"]["annotations"] = FORGED
    await here.cluster.ask("POST", NEWEST.path(here.namespace), later)
    told = await here.until_reason("Unreadable", "later")
    assert "remove that if it is complete" in told["message"]

    await until_rewritten(here, LEFT)
    await here.wait_until_ready("forged")
    told = await here.until_reason("Unreadable", "poisoned")
    assert "RuntimeError: no stage may be poisoned" in told["message"]
    old = await here.cluster.ask("GET", ALPHA.path(here.namespace, "poisoned"))
    assert old["spec"]["stageName"] == "poison"
    await here.cluster.patch(ALPHA.path(here.namespace, "poisoned"), {"spec": {"stageName": "ok"}})
    await here.cluster.patch(
        NEWEST.path(here.namespace, "later"), {"metadata": {"annotations": dict.fromkeys(FORGED)}}
    )
    await here.wait_until_ready("poisoned")
    await here.wait_until_ready("later")
    await until_rewritten(here)
