"""The operator of examples/staticsite/README.md: what the users of a StaticSite see in trouble."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from examples.staticsite import staticsite
from examples.staticsite.staticsite import Login
from kopf_kit.testing.kubelet import Kubelet, Trouble
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Parent
from kopf_kit.testing.world import World
from kopf_runtime import Kind, kinds

HOST, OTHER = "a.example.org", "b.example.org"
LOGIN = Login("reader", "geheim", "")
DATA = {"username": LOGIN.username, "password": LOGIN.password}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": DATA}


class Sites(Parent):
    """The operator of examples/staticsite; its checks ask a server of the test."""

    program = (staticsite.__file__,)
    manager = staticsite.manager
    url = ""

    @property
    def child(self) -> Kind:
        return kinds.DEPLOYMENT

    def flags(self, *given: Any, **more: Any) -> tuple[str, ...]:
        return *super().flags(*given, **more), f"--site-url={self.url}"

    def spec(self, text: str) -> Raw:
        return {"host": HOST, "login": "login", "pages": {"index.html": text}, "replicas": 2}

    def reads(self, namespace: str) -> Any:
        return {kinds.SECRET: {(namespace, "login"): LOGIN}}

    def plan(self, found: Raw, text: str) -> list[Raw]:
        plan = super().plan(found, text)
        for manifest in plan:
            if manifest["kind"] == "Deployment":  # the version of the Secret is not known here
                del manifest["spec"]["template"]["metadata"]["annotations"]
        return plan


@pytest.fixture
def subject() -> Parent:
    return Sites()


@pytest.fixture(autouse=True)
async def answers() -> AsyncIterator[dict[str, int]]:
    """Answer for all sites with the status in the result, but only to those who may see them."""
    now = {"status": 200}

    async def answer(request: web.Request) -> web.Response:
        known = request.headers.get("Authorization") == "Basic cmVhZGVyOmdlaGVpbQ=="
        return web.Response(status=now["status"] if known else 401)

    app, port = web.Application(), free_port()
    app.router.add_get("/{namespace}/{name}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    Sites.url = f"http://127.0.0.1:{port}/{{namespace}}/{{name}}"
    yield now
    await runner.cleanup()


async def make_login(here: World, namespace: str, **wrong: str) -> None:
    body = {**SECRET, "stringData": {**DATA, **wrong}}
    await here.cluster.ask("POST", kinds.SECRET.path(namespace), body)


async def edit_page(here: World, text: str) -> None:
    await here.cluster.patch(here.object(), {"spec": {"pages": {"index.html": text}}})


async def until_refused(here: World) -> str:
    """Wait until the pages are not accepted; return why."""
    async with here.within(here.subject.patience, "PagesAccepted is false"):
        while True:
            status = (await here.cluster.ask("GET", here.object()))["status"]
            for condition in status["conditions"]:
                if (condition["type"], condition["status"]) == ("PagesAccepted", "False"):
                    return str(condition["message"])
            await asyncio.sleep(0.1)


async def served(here: World) -> tuple[str, list[str]]:
    """Return the ConfigMap that the Deployment has, and all that there are."""
    deployment = await here.cluster.ask("GET", here.child())
    volume, *_ = deployment["spec"]["template"]["spec"]["volumes"]
    maps = await here.cluster.items(kinds.CONFIG_MAP.path(here.namespace))
    return volume["configMap"]["name"], [config_map["metadata"]["name"] for config_map in maps]


@pytest.mark.api
async def test_what_the_users_of_a_site_see(here: World, answers: dict[str, int]) -> None:
    """Nothing but an event ends a wait in time: without one, it takes ten minutes."""
    other = await here.another_namespace()
    await here.start(f"--namespace={other}")

    await here.create("Hello")
    told = await here.until_reason("ReferenceMissing")
    assert told["message"] == f"Secret {here.namespace}/login does not exist."
    await make_login(here, here.namespace, password="")
    told = await here.until_reason("ReferenceUnreadable")
    assert "its password one line" in told["message"]
    answers["status"] = 500
    await here.cluster.patch(kinds.SECRET.path(here.namespace, "login"), SECRET)
    told = await here.until_reason("NoAnswer")
    assert told["message"] == "The site does not answer: it answered 500."
    answers["status"] = 200
    await here.wait_until_ready()

    await make_login(here, other)
    async with Kubelet(here.cluster, other).running():
        await here.create_in(other, "Hello")
        await here.until_reason("HostTaken", namespace=other)
        await here.cluster.patch(here.object(), {"spec": {"host": OTHER}})
        await here.until_reason("Reconciled", namespace=other)

    former, _ = await served(here)
    here.kubelet.arm(Trouble.JOBS_FAIL)
    await edit_page(here, "Bye")
    assert await until_refused(here) == "the test wants it"
    why = "Deployment hello waits for Job hello-check: it has failed: "
    async with here.within(here.subject.patience, "the failure of the Job is told"):
        while why not in (await here.condition())["message"]:
            await asyncio.sleep(0.1)
    assert (await served(here))[0] == former

    here.kubelet.disarm()
    await edit_page(here, "Hello again")
    await here.wait_until_ready()
    now, every = await served(here)
    assert now != former
    async with here.within(here.subject.patience, "the former pages are collected"):
        while every != [now]:
            await asyncio.sleep(0.1)
            now, every = await served(here)
