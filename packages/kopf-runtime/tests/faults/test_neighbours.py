"""What happens to a neighbour ends no operator, and stops no other handler of kopf (B4)."""

import asyncio
import secrets
from signal import SIGKILL

import pytest

from faults.holders import Stores, definition
from faults.stores import NOTE, PART, SEEN
from kopf_kit.project.rbac import SCANNING
from kopf_kit.testing.api_server import granted
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import prepare
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import POD, Kind


class Neighbours(Stores):
    """The operator of stores.py beside handlers of kopf, which may watch CRDs or not."""

    program = ("-c", "from faults import stores; raise SystemExit(stores.run_with_handlers())")
    keeps = False
    pod_security = "privileged"

    def __init__(self, *, scans: bool = True) -> None:
        self.scans = scans

    def install(self) -> list[Raw]:
        return [*super().install(), definition(NOTE)]

    def rights(self, namespace: str | None) -> list[Raw]:
        plurals = [(kind.group, kind.plural) for kind in (POD, NOTE)]
        verbs = ["get", "list", "watch", "patch"]
        rules = [{"apiGroups": [g], "resources": [p], "verbs": verbs} for g, p in plurals]
        given = [*super().rights(namespace), *granted("neighbours", rules, self.user, namespace)]
        return given + (granted("scanning", [SCANNING], self.user, None) if self.scans else [])


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Neighbours:
    return Neighbours(scans=getattr(request, "param", False))


def api_service(group: str, version: str) -> Raw:
    """Return an APIService whose Service does not exist."""
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "away", "namespace": "default"},
    }
    meta = {"name": f"{version}.{group}"}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": meta,
        "spec": spec,
    }


async def seen(here: World, kind: Kind) -> None:
    """Create an object of a kind, and wait until a handler of kopf has seen it."""
    name = f"n-{secrets.token_hex(4)}"
    spec = {"containers": [{"name": "c", "image": "i"}]} if kind == POD else {}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    await here.cluster.ask("POST", kind.path(here.namespace), {**body, "spec": spec})
    async with here.within(60, f"kopf's handler sees a {kind.kind}"):
        while True:
            raw = await here.cluster.ask("GET", kind.path(here.namespace, name))
            if SEEN in raw["metadata"].get("annotations", {}):
                return
            await asyncio.sleep(0.1)


async def gone(here: World, kind: Kind) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}"
    await here.cluster.remove(path)
    async with here.within(120, f"{kind} is gone"):
        while await here.cluster.find(path):
            await asyncio.sleep(0.1)


SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_b4_api_groups_are_away_and_come_back(own_world: World) -> None:
    """One that no handler names, and a version of each of those that some name."""
    here = own_world
    away = ("metrics.example.dev", "v1beta1"), (NOTE.group, "v2"), (PART.group, "v9")
    for group, version in away:
        await here.cluster.ask("POST", SERVICES, api_service(group, version))
    await here.start(everywhere=True)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    await seen(here, POD)
    await seen(here, NOTE)

    for group, version in away:
        await here.cluster.remove(f"{SERVICES}/{version}.{group}")
        async with here.within(60, "it is read again"):
            while f"group {group} can be read again" not in here.operator.log.read_text():
                await asyncio.sleep(0.1)
    await seen(here, NOTE)
    assert here.operator.exits == []


@pytest.mark.long  # the API server takes its time to forget a kind
@pytest.mark.parametrize("subject", [True, False], indirect=True)
async def test_b4_crds_go_and_come_back(own_world: World) -> None:
    """That of a kind that a handler of kopf is for, and that of a child; it starts without, too."""
    here = own_world
    assert isinstance(here.subject, Neighbours)
    await here.start(everywhere=True)
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)
    await seen(here, NOTE)

    await gone(here, NOTE)
    await gone(here, PART)
    await here.until_reason("KindNotServed")
    await seen(here, POD)
    await here.edit("둘")
    if here.subject.scans:
        await here.restart()
        await seen(here, POD)

    await prepare(here.cluster, here.subject)
    await here.converges({"hello": "둘"}, quiet=0.1)
    await seen(here, NOTE)
    assert here.operator.exits == [-SIGKILL] * here.subject.scans
