"""The floor: measures a bare client that makes the same writes as our operator.

It knows all of them in advance and watches nothing. Used by `run`; `floor` is the client.
"""

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bench import environment, shipped, stage
from bench.api import MESSAGES, NAMESPACE, PODS
from bench.floor import Write
from bench.stage import Numbers
from kopf_kit.rig import paths
from kopf_kit.rig.control_plane import ControlPlane
from kopf_runtime import Context, Status
from kopf_runtime.declaring import conditions
from kopf_runtime.declaring.kinds import POD
from kopf_runtime.declaring.objects import decode
from kopf_runtime.declaring.records import Owned, Update
from kopf_runtime.working.templates import Marks, Templates
from message_operator import messages, pods
from message_operator.operator import controller, desired
from message_operator.settings import Settings

Raw = dict[str, Any]


async def floor(count: int) -> Numbers:
    """Measure the client's time for a backlog, then for an edit of every Message."""
    found: Numbers = {}
    async with stage.observed() as (plane, api, world):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        listed = (await api.request("GET", MESSAGES))["items"]
        async with _client(plane, [_creates(raw) for raw in listed]) as client:
            world.want(texts)
            began = time.monotonic()
            await client.go()
            done = await world.until_right(stage.PATIENCE)
            found["backlog_pod"] = None if world.podless else world.last_pod - began
            found["backlog_status"] = world.last_status - began if done else None

        texts = stage.texts(count, "새 글")
        edited = [_edited(raw, texts[raw["metadata"]["name"]]) for raw in listed]
        async with _client(plane, [_replaces(raw) for raw in edited]) as client:
            world.want(texts)
            began = time.monotonic()
            await asyncio.gather(client.go(), stage.edit(api, texts))
            done = await world.until_right(stage.PATIENCE)
            found["edit_pod"] = None if world.podless else world.last_pod - began
            found["edit_status"] = world.last_status - began if done else None
    return found


class _Client:
    """The client's process, which waits for a signal to begin."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def go(self) -> None:
        """Let it begin, and wait until it has written everything."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await asyncio.wait_for(self._process.wait(), stage.PATIENCE)


@contextlib.asynccontextmanager
async def _client(plane: ControlPlane, plan: list[list[Write]]) -> AsyncIterator[_Client]:
    """Run a client with a plan, ready to begin: its start does not count."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            *shipped.python(),
            "-m",
            "bench.floor",
            plane.server,
            file.name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **shipped.environment(paths.CHECKOUT)},
        )
        assert process.stdout is not None
        try:
            await asyncio.wait_for(process.stdout.readline(), 60)
            yield _Client(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _edited(raw: Raw, text: str) -> Raw:
    """Return a Message as it is after an edit."""
    meta = raw["metadata"]
    return {
        **raw,
        "metadata": {**meta, "generation": meta["generation"] + 1},
        "spec": {**raw["spec"], "text": text},
    }


def _replaces(raw: Raw) -> list[Write]:
    """Return the writes for an edited Message."""
    create, *rest = _creates(raw)
    name = create[2]["metadata"]["name"]
    return [("DELETE", f"{PODS}/{name}", {}), create, *rest]


def _creates(raw: Raw) -> list[Write]:
    """Return the writes that our operator makes for a new Message."""
    known = decode(msgspec.json.Decoder(messages.Message), msgspec.json.encode(raw))
    meta, kind = known.metadata, controller.kind
    owned = Owned(POD, pods.Pod, Update.RECREATE, pods.project, lambda pod: pod.ended)
    context = Context(Settings())
    templates = Templates(
        kind, Marks("message-operator", kind), [owned], lambda one, _: desired(one, context)
    )
    (wanted,) = templates.make(known)
    pod = json.loads(templates.body(wanted) or b"{}")
    fields = {
        "phase": "Processed",
        "summary": messages.summary(known),
        "podName": wanted.key[1],
        "nodeName": environment.NODE,
    }
    running = Status(True, "PodRunning", "The Pod prints the text.", fields)
    status = conditions.build({}, meta.generation, running)
    now = status["conditions"][0]["lastTransitionTime"]
    about = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    event = {
        "metadata": {"name": f"{meta.name}.{meta.generation}", "namespace": NAMESPACE},
        "involvedObject": about,
        "type": "Normal",
        "reason": "Created",
        "message": f"Created Pod {wanted.key[1]}.",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "floor"},
    }
    return [
        ("POST", PODS, pod),
        ("PATCH", f"{MESSAGES}/{meta.name}/status", {"status": status}),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/events", event),
    ]
