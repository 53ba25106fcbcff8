"""The whole operator, as `message_operator.operator` declares it, on an API server in process."""

import gc
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.kinds import POD
from message_operator import openshift
from message_operator.operator import manager
from message_operator.settings import Settings
from runtime.support.api_server import MESSAGE, ApiServer, RefusedError
from runtime.support.running import caches, connected, operating
from runtime.support.waiting import until
from tests.unit.samples import SETTINGS, Raw, raw_message

(CONTROLLER,) = manager.controllers
KEY, POD_KEY = ("ns", "hello"), ("ns", "msg-hello")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer().running() as one:
        yield one


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("reporting.status_writer", "working.decide"):
        monkeypatch.setattr(f"kopf_runtime.{module}.SETTLE", 0.2)


def status(server: ApiServer, key: tuple[str, str] = KEY) -> Any:
    return (server.get(MESSAGE, key) or {}).get("status") or {}


def ready(server: ApiServer) -> Any:
    return next((c for c in status(server).get("conditions", ()) if c["type"] == "Ready"), {})


def text(server: ApiServer) -> Any:
    pod = server.get(POD, POD_KEY)
    return pod and pod["spec"]["containers"][0]["env"][0]["value"]


def run(pod: Raw) -> None:
    pod["spec"]["nodeName"] = "node-1"
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def processed(server: ApiServer) -> None:
    """Do the scheduler's and the kubelet's job, and wait until the Message is told."""
    await until(lambda: server.get(POD, POD_KEY))
    server.edit(POD, POD_KEY, run, "kubelet", "status")
    await until(lambda: status(server).get("phase") == "Processed")


async def test_a_new_message_gets_its_pod_and_one_status(server: ApiServer) -> None:
    server.put(MESSAGE, raw_message("하나"))
    async with operating(server, CONTROLLER, settings=SETTINGS):
        await processed(server)
        await until(lambda: server.events)

    assert text(server) == "하나"
    told = status(server)
    assert (told["podName"], told["nodeName"]) == ("msg-hello", "node-1")
    assert (told["observedGeneration"], told["summary"]) == (1, "하나")
    assert (ready(server)["status"], ready(server)["reason"]) == ("True", "PodRunning")
    (event,) = server.events
    assert (event["reason"], event["message"]) == ("Created", "Created Pod msg-hello.")
    assert [write.split("/")[-1] for write in server.writes] == ["pods", "status"]


# --- M3 -----------------------------------------------------------------------------------------


def size(thing: Any, seen: set[int]) -> int:
    """Return the bytes of an object and of all that it refers to."""
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    return sys.getsizeof(thing) + sum(size(part, seen) for part in gc.get_referents(thing))


async def test_m3_what_is_remembered_of_a_message_does_not_grow_with_its_text(
    server: ApiServer,
) -> None:
    server.put(MESSAGE, raw_message("a", name="short"))
    server.put(MESSAGE, raw_message("x" * 32767 + "🌍", name="endless"))
    async with operating(server, CONTROLLER, settings=SETTINGS):
        await until(lambda: server.get(POD, ("ns", "msg-endless")))
        await until(lambda: status(server, ("ns", "endless")).get("phase") == "Pending")
        await until(lambda: status(server, ("ns", "short")).get("phase") == "Pending")
        bytes_of = {
            name: size(caches(CONTROLLER).owners.cache.get(("ns", name)), set())
            for name in ("short", "endless")
        }

    assert bytes_of["endless"] < bytes_of["short"] + 500


SERVES_GROUP = r"^/apis/security\.openshift\.io$"


async def adapted(server: ApiServer, settings: Settings) -> Settings:
    async with connected(server) as client:
        return await openshift.adapt(client, settings)


async def has_the_group(request: web.Request) -> web.Response | None:
    if request.path != "/apis/security.openshift.io":
        return None
    return web.json_response({"kind": "APIGroup", "name": "security.openshift.io"})


async def test_elsewhere_the_operator_gives_the_user(server: ApiServer) -> None:
    assert await adapted(server, Settings()) == Settings()
    assert [str(request) for request in server.requests] == ["GET /apis/security.openshift.io"]


async def test_on_openshift_the_cluster_does(server: ApiServer) -> None:
    server.answers.append(has_the_group)

    assert await adapted(server, Settings()) == Settings(message_user=None)


@pytest.mark.parametrize("said", [1000680000, None])
async def test_what_the_administrator_says_is_not_questioned(
    server: ApiServer, said: int | None
) -> None:
    server.answers.append(has_the_group)

    assert await adapted(server, Settings(message_user=said)) == Settings(message_user=said)
    assert not server.requests


async def test_a_server_that_knows_no_roles_yet_is_asked_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openshift, "PAUSES", (0.01, 0.01))
    server.refuse("GET", SERVES_GROUP, RefusedError(403, "Forbidden"), times=2)
    server.answers.append(has_the_group)

    assert await adapted(server, Settings()) == Settings(message_user=None)


async def test_a_server_that_does_not_say_is_taken_for_no_openshift_and_that_is_told(
    server: ApiServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openshift, "PAUSES", (0.01, 0.01))
    server.refuse("GET", SERVES_GROUP, RefusedError(403, "Forbidden"), times=3)

    with caplog.at_level(logging.WARNING):
        assert await adapted(server, Settings()) == Settings()

    assert "set --message-user=none" in caplog.text


@pytest.mark.parametrize("code", [401, 429, 500, 503])
async def test_no_answer_is_no_answer(server: ApiServer, code: int) -> None:
    server.refuse("GET", SERVES_GROUP, RefusedError(code, "Trouble"), float("inf"))

    with pytest.raises(kr.ApiError):
        await adapted(server, Settings())
