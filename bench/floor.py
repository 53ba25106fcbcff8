"""The floor: a client that makes the same writes as our operator, and checks nothing.

`bare.floor` starts it as `python -m bench.floor SERVER FILE`; the file contains a list of writes
for each Message, so that it watches nothing. It prints "ready", begins when it reads a line, and
prints what CPU time the writes took. As a peer, for single creates, it is given no file: it watches
the Messages, and makes the writes of each when it arrives.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench.api import MERGE_PATCH, MESSAGES, NAMESPACE, NODE, OPERATOR, PODS, Api, RefusedError
from kopf_runtime import Context, Pod, Status
from kopf_runtime.cluster.pool import Pool
from kopf_runtime.declaring import conditions
from kopf_runtime.declaring.kinds import POD
from kopf_runtime.declaring.objects import decode
from kopf_runtime.declaring.records import Owned, Update
from kopf_runtime.working.templates import Marks, Templates
from message_operator import messages, pods
from message_operator.operator import controller, desired
from message_operator.settings import Settings

CONNECTIONS = 32

Raw = dict[str, Any]
Write = tuple[str, str, Raw]  # (method, path, body)


class Bare:
    """The runtime's own connections, with nothing around them."""

    def __init__(self, server: str, user: str) -> None:
        self._pool = Pool(server)
        self._tls = ssl._create_unverified_context()  # noqa: S323 (its certificate is self-signed)
        self._headers = {"Authorization": f"Bearer {user}", "User-Agent": f"bench-{user}"}

    async def write(self, writes: list[Write]) -> None:
        """Make the writes of one Message, in order, and decode the answers."""
        for method, path, body in writes:
            kind = MERGE_PATCH if method == "PATCH" else "application/json"
            answer = await self._pool.send(
                method,
                path,
                {**self._headers, "Content-Type": kind},
                msgspec.json.encode(body) if body else None,
                tls=self._tls,
                check=lambda: None,
                seconds=60,
            )
            try:
                text = await answer.read() or b""
            finally:
                self._pool.release(answer)
            if answer.status >= 400:
                raise RefusedError(f"{method} {path}: {answer.status} {text[:300].decode()}")
            msgspec.json.decode(text)


async def burst(server: str, plan: list[list[Write]]) -> None:
    """Make the writes, one Message at a time per connection."""
    async with Api(server, "floor", CONNECTIONS) as api:
        client = Bare(server, "floor")
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        began = time.process_time()
        await api.each(plan, client.write)
        print(time.process_time() - began)  # noqa: T201


async def follow(server: str) -> None:
    """Make the writes of each Message as soon as it arrives at the watch, one after the other."""
    async with Api(server, OPERATOR) as api:
        client = Bare(server, OPERATOR)
        async for event in api.watch(MESSAGES, "0"):
            if event["type"] == "ADDED":
                await client.write(creates(event["object"]))


def creates(raw: Raw) -> list[Write]:
    """Return the writes that our operator makes for a new Message."""
    known = decode(msgspec.json.Decoder(messages.Message), msgspec.json.encode(raw))
    meta, kind = known.metadata, controller.kind
    owned = Owned(POD, Pod, Update.RECREATE, pods.project, lambda pod: pod.ended)
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
        "nodeName": NODE,
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


if __name__ == "__main__":
    match sys.argv[1:]:
        case [server, file]:
            asyncio.run(burst(server, json.loads(Path(file).read_text())))
        case _:  # a peer's flags
            access = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
            asyncio.run(follow(access["clusters"][0]["cluster"]["server"]))
