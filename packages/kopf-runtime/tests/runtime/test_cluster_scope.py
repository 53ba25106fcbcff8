"""A kind without namespaces is served always; its children only where their namespace is served."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, POD
from kopf_runtime.declaring.records import MANAGED_BY
from kopf_runtime.reporting import troubles
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, Operator, caches, operating
from runtime.support.waiting import until
from runtime.widgets import Raw, manifest, ready, retry_after

TENANT = kr.Kind("example.dev", "v1", "tenants", "Tenant", namespaced=False)
KEY = ("", "one")
QUIET = 0.3  # seconds in which an operator that wrongly acts would have acted
LISTED = kr.Settings(namespaces=("ours",))
SELECTED = kr.Settings(namespace_selector="team=a")


class Spec(msgspec.Struct, frozen=True):
    namespaces: list[str] = []


class Tenant(kr.Resource):
    spec: Spec = Spec()


def desired(tenant: Tenant, _: object) -> Iterable[Raw]:
    for namespace in tenant.spec.namespaces:
        yield manifest(CONFIG_MAP, tenant.metadata.name, {"namespace": namespace})


def controller() -> Controller:
    tenants = Controller(TENANT, Tenant, lambda _: None)
    tenants.owns(CONFIG_MAP)
    tenants.desired(desired)
    return tenants


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(TENANT).running() as one:
        label(one, "ours", team="a")
        label(one, "theirs")
        yield one


@pytest.fixture(autouse=True)
def _no_retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing come right by being tried again."""
    retry_after(monkeypatch, 300.0, troubles.CONFLICT)


def running(
    server: ApiServer, settings: kr.Settings, one: Controller | None = None
) -> AbstractAsyncContextManager[Operator]:
    return operating(server, one or controller(), settings=settings)


def label(server: ApiServer, namespace: str, **labels: str) -> None:
    server.put(NAMESPACE, {"metadata": {"name": namespace, "labels": labels}})


def put(server: ApiServer, *namespaces: str) -> None:
    tenant = {"metadata": {"name": KEY[1]}, "spec": {"namespaces": list(namespaces)}}
    if server.get(TENANT, KEY) is None:
        server.put(TENANT, tenant)
    else:
        server.edit(TENANT, KEY, lambda raw: raw.update(spec=tenant["spec"]))


def child(server: ApiServer, namespace: str) -> Raw | None:
    return server.get(CONFIG_MAP, (namespace, "one"))


def reported(server: ApiServer) -> tuple[str, str]:
    condition = ready(server.get(TENANT, KEY))
    return condition.get("reason", ""), condition.get("message", "")


@pytest.mark.parametrize("settings", [kr.Settings(), LISTED, SELECTED], ids=["", "list", "labels"])
async def test_it_is_served_in_any_namespaces(server: ApiServer, settings: kr.Settings) -> None:
    put(server, "ours")
    one = controller()
    async with running(server, settings, one):
        await until(lambda: reported(server)[0] == "Reconciled")
        assert child(server, "ours")
        assert caches(one).unserved() == ([], 1)

        server.remove(CONFIG_MAP, ("ours", "one"))
        await until(lambda: child(server, "ours"))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (LISTED, "--namespace does not name it"),
        (SELECTED, "--namespace-selector does not select it"),
    ],
    ids=["list", "labels"],
)
async def test_a_child_in_a_namespace_that_is_not_served_is_told_and_the_others_are_made(
    server: ApiServer, settings: kr.Settings, why: str
) -> None:
    put(server, "theirs", "ours")
    async with running(server, settings):
        await until(lambda: reported(server)[0] == "NamespaceNotServed")
        await until(lambda: child(server, "ours"))

    assert reported(server)[1] == (
        f"ConfigMap one is left alone: its namespace theirs is not served: {why}."
    )
    assert child(server, "theirs") is None


async def test_a_namespace_that_cannot_be_listed_is_served_once_it_can(server: ApiServer) -> None:
    put(server, "ours", "theirs")
    refused = RefusedError(403, "Forbidden", "you may not")
    server.refuse("GET", "/namespaces/theirs/configmaps$", refused, float("inf"))
    async with running(server, kr.Settings(namespaces=("ours", "theirs"))):
        await until(lambda: "the operator has no right to it: you may not" in reported(server)[1])
        assert reported(server)[0] == "NamespaceNotServed"
        assert child(server, "ours")

        server.answers.clear()
        await until(lambda: reported(server)[0] == "Reconciled")
        assert child(server, "theirs")


async def test_a_namespace_gains_and_loses_the_label(server: ApiServer) -> None:
    put(server, "theirs")
    async with running(server, SELECTED):
        await until(lambda: reported(server)[0] == "NamespaceNotServed")
        label(server, "theirs", team="a")
        await until(lambda: reported(server)[0] == "Reconciled")
        assert child(server, "theirs")

        label(server, "theirs")
        await until(lambda: reported(server)[0] == "NamespaceNotServed")
        put(server, "ours")  # what is not wanted any more stays, and that is told
        await until(lambda: child(server, "ours"))
        await asyncio.sleep(QUIET)
        assert child(server, "theirs")
        assert reported(server)[0] == "NamespaceNotServed"

        label(server, "theirs", team="a")
        await until(lambda: reported(server)[0] == "Reconciled")
        assert child(server, "theirs") is None


async def test_nothing_is_written_where_the_label_has_gone(server: ApiServer) -> None:
    """A reconcile that is under way in that moment does not finish its work there."""
    asked, released = asyncio.Event(), asyncio.Event()

    async def hold(request: web.Request) -> None:
        if request.method == "GET" and request.path.endswith("/ours/configmaps/one"):
            asked.set()
            await released.wait()

    server.answers.append(hold)
    put(server, "ours")
    async with running(server, SELECTED):
        await asked.wait()
        label(server, "ours")
        await asyncio.sleep(QUIET)
        released.set()
        await until(lambda: reported(server)[0] == "NamespaceNotServed")

    assert child(server, "ours") is None


async def test_no_grandchildren_come_from_a_namespace_without_children(server: ApiServer) -> None:
    one = controller()
    one.descendants(POD, transform=lambda _: None)

    @one.status
    def status(_: object, seen: kr.Observed) -> kr.Status:
        return kr.Status(True, "Seen", ", ".join(pod.key[0] for pod in seen.descendants[POD]))

    put(server, "ours")
    async with running(server, kr.Settings(), one):
        await until(lambda: reported(server)[0] == "Seen")
        uid = (server.get(TENANT, KEY) or {})["metadata"]["uid"]
        marks = {
            "labels": {MANAGED_BY: NAME, "example.dev/tenant-uid": uid},
            "annotations": {"example.dev/tenant-name": "one"},
        }
        for namespace in ("theirs", "ours"):
            server.put(POD, {"metadata": {"namespace": namespace, "name": "p", **marks}})

        await until(lambda: "ours" in reported(server)[1])
    assert reported(server)[1] == "ours"
