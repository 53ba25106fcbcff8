"""The whole operator, as `message_operator.operator` declares it, on an API server in process."""

import gc
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kopf_runtime.declaring.kinds import POD
from message_operator.operator import manager
from runtime.support.api_server import MESSAGE, ApiServer
from runtime.support.running import caches, operating
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


# --- C1 -----------------------------------------------------------------------------------------


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
