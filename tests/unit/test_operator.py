"""The whole operator, as `message_operator.operator` declares it, on an API server in process."""

import gc
import itertools
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import POD, Kind
from message_operator.operator import manager
from runtime.support.api_server import MESSAGE, ApiServer
from runtime.support.running import build, caches, operating
from runtime.support.waiting import until
from tests.unit.samples import SETTINGS, Raw, raw_message

(CONTROLLER,) = manager.controllers
KEY, POD_KEY = ("ns", "hello"), ("ns", "msg-hello")
GENERATION, UID = "myorg.dev/message-generation", "myorg.dev/message-uid"
MANAGED = "app.kubernetes.io/managed-by"


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=10,
)
META = st.fixed_dictionaries(
    {},
    optional={
        "labels": JSON | st.dictionaries(st.sampled_from([MANAGED, UID]), st.text()),
        "annotations": JSON | st.just({GENERATION: "9" * 5000}),
        "ownerReferences": JSON
        | st.just(
            [
                {
                    "kind": "Message",
                    "name": "hello",
                    "apiVersion": "myorg.dev/v1",
                    "uid": "m",
                    "controller": True,
                }
            ]
        ),
        "managedFields": JSON
        | st.lists(
            st.fixed_dictionaries({"manager": st.just("message-operator"), "fieldsV1": JSON})
        ),
        "finalizers": JSON,
        "deletionTimestamp": st.none() | st.text(),
    },
)
VERSIONS = itertools.count(1)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([MESSAGE, POD]), META, JSON, JSON)
def test_c1_any_message_and_any_pod_is_taken_in_or_left_out(
    kind: Kind, meta: Any, spec: Any, status: Any
) -> None:
    metrics = Metrics("message-operator")
    client = Client("message-operator", "1", 1.0, metrics)
    build(client, metrics, SETTINGS, CONTROLLER)
    version = next(VERSIONS)
    name = "hello" if kind == MESSAGE else "msg-hello"
    named = {**meta, "namespace": "ns", "name": name, "uid": "m", "resourceVersion": str(version)}
    raw = json.dumps({"metadata": named, "spec": spec, "status": status}).encode()
    for source in caches(CONTROLLER).sources:
        if source.kind == MESSAGE:
            good = {**raw_message()["metadata"], "uid": "m", "resourceVersion": "0"}
            source.take(msgspec.Raw(json.dumps({"metadata": good, "spec": {"text": ""}}).encode()))

    (source,) = (candidate for candidate in caches(CONTROLLER).sources if candidate.kind == kind)

    assert source.take(msgspec.Raw(raw)) is not None


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
