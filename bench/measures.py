"""What is measured: each function makes one measurement, on a control plane of its own.

Each gives a flat dict of numbers, whose names ``report`` knows; None stands for "never came".
Times are in seconds, memory in MB of 2**20 bytes. Used by ``run``.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from bench import api as bench_api
from bench import environment, peers, shipped
from bench.api import MESSAGES, NAMESPACE, Api, message
from bench.audit import Audit
from bench.peers import OURS, Peer, Process
from bench.world import World
from hack import paths
from hack.control_plane import ControlPlane
from hack.run import HackError
from kopf_runtime import Status
from kopf_runtime import status as statuses
from kopf_runtime.kinds import POD
from kopf_runtime.objects import decode
from kopf_runtime.records import Owned, Update
from kopf_runtime.templates import Marks, Templates
from message_operator import messages, pods
from message_operator.operator import desired
from message_operator.settings import Settings

Numbers = dict[str, float | None]

#: Seconds that 1,000 Messages may take; the naive peer needs most of them.
_PATIENCE = 300.0
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{peers.LEASE}"
_ELECTED = ("--leader-elect", f"--lease-namespace={NAMESPACE}")


def _texts(count: int, say: str, first: int = 0) -> dict[str, str]:
    return {f"m{i:05}": f"{say} {i}" for i in range(first, first + count)}


async def _create(api: Api, texts: dict[str, str]) -> None:
    await api.each(texts.items(), lambda item: api.request("POST", MESSAGES, message(*item)))


async def _edit(api: Api, texts: dict[str, str]) -> None:
    await api.each(
        texts.items(),
        lambda item: api.patch(f"{MESSAGES}/{item[0]}", {"spec": {"text": item[1]}}),
    )


async def _quiet(process: Process, patience: float = 60.0) -> None:
    """Wait until the operator has nothing more to do, by the CPU that it uses."""
    deadline = time.monotonic() + patience
    calm = 0
    while calm < 3 and time.monotonic() < deadline:
        before = process.cpu()
        await asyncio.sleep(0.5)
        calm = calm + 1 if process.cpu() - before <= 0.01 else 0


@contextlib.asynccontextmanager
async def _observed(
    peer: Peer = OURS, *, audited: bool = False
) -> AsyncIterator[tuple[ControlPlane, Api, World]]:
    async with environment.running(audited=audited) as plane, Api(plane.server) as api:
        world = World(tells_generation=peer.tells_generation)
        async with world.watched(api):
            yield plane, api, world


async def speed(peer: Peer, count: int, creates: int) -> Numbers:
    """Time a backlog, then an edit of every Message, then single creates; and their CPU."""
    found: Numbers = {}
    async with _observed(peer) as (plane, api, world):
        texts = _texts(count, "안녕")
        await _create(api, texts)
        await asyncio.sleep(2)
        world.want(texts)
        async with peers.running(plane, peer) as process:
            done = await world.until_right(_PATIENCE)
            found["backlog_pod"] = None if world.podless else world.last_pod - process.started
            found["backlog_status"] = world.last_status - process.started if done else None
            await _quiet(process)
            found["backlog_cpu"] = process.cpu()
            found["backlog_rss"] = process.rss()

            texts = _texts(count, "새 글")
            world.want(texts)
            began, used = time.monotonic(), process.cpu()
            await _edit(api, texts)
            done = await world.until_right(_PATIENCE)
            found["edit_pod"] = None if world.podless else world.last_pod - began
            if peer.tells_generation:
                found["edit_status"] = world.last_status - began if done else None
            await _quiet(process)
            found["edit_cpu"] = process.cpu() - used

            taken = [await _latency(api, world, i) for i in range(creates)]
            arrived = sorted(one for one in taken if one is not None)
            if len(arrived) == len(taken):
                found["create_p50"] = arrived[len(arrived) // 2]
                found["create_p99"] = arrived[int(len(arrived) * 0.99)]
    return found


async def _latency(api: Api, world: World, number: int) -> float | None:
    """Create one Message; give the time from its arrival at the watch to that of its Pod."""
    name, text = f"single{number:03}", "하나"
    world.want({name: text})
    await api.request("POST", MESSAGES, message(name, text))
    if not await world.until_right(20):
        return None
    await asyncio.sleep(0.05)
    return world.pod_since[name] - world.message_since[name]


async def floor(count: int) -> Numbers:
    """Time a bare client that makes the same writes, knowing everything beforehand."""
    async with _observed() as (plane, api, world):
        texts = _texts(count, "안녕")
        await _create(api, texts)
        listed = await api.request("GET", MESSAGES)
        plan = [_floor_writes(raw) for raw in listed["items"]]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(plan, file)
            file.flush()
            client = await asyncio.create_subprocess_exec(
                *shipped.python(), "-m", "bench.floor", plane.server, file.name,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **shipped.environment(paths.CHECKOUT)},
            )  # fmt: skip
            assert client.stdin is not None
            assert client.stdout is not None
            try:
                await asyncio.wait_for(client.stdout.readline(), 60)  # it is ready
                world.want(texts)
                began = time.monotonic()
                client.stdin.write(b"go\n")
                done = await world.until_right(_PATIENCE)
                await asyncio.wait_for(client.wait(), 60)
            finally:
                if client.returncode is None:
                    client.kill()
        return {
            "backlog_pod": None if world.podless else world.last_pod - began,
            "backlog_status": world.last_status - began if done else None,
        }


def _floor_writes(raw: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Give the writes that a Message takes, as our operator makes them."""
    known = decode(msgspec.json.Decoder(messages.Message), msgspec.json.encode(raw))
    meta = known.metadata
    kind = messages.KIND
    owned = Owned(POD, pods.Pod, Update.REPLACE, pods.keep, pods.ended)
    templates = Templates(
        kind, Marks("message-operator", kind), [owned], lambda one, _: desired(one, Settings())
    )
    (wanted,) = templates.make(known)
    pod = json.loads(templates.body(wanted) or b"{}")
    fields = {
        "phase": "Processed", "summary": messages.summary(known),
        "podName": wanted.key[1], "nodeName": environment.NODE,
    }  # fmt: skip
    running = Status(True, "PodRunning", "The Pod prints the text.", fields)
    status = statuses.build({}, meta.generation, running)
    now = status["conditions"][0]["lastTransitionTime"]
    about = {
        "apiVersion": kind.api_version, "kind": kind.kind, "namespace": meta.namespace,
        "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
    }  # fmt: skip
    event = {
        "metadata": {"name": f"{meta.name}.0", "namespace": NAMESPACE},
        "involvedObject": about, "type": "Normal", "reason": "Created",
        "message": f"Created Pod {wanted.key[1]}.", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "floor"},
    }  # fmt: skip
    return [
        ("POST", bench_api.PODS, pod),
        ("PATCH", f"{MESSAGES}/{meta.name}/status", {"status": status}),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/events", event),
    ]


async def writes(peer: Peer, count: int, idle: float) -> tuple[Numbers, dict[str, dict[str, int]]]:
    """Count the operator's writes at each stage of the Messages' life, by the audit log.

    Ours runs with leader election, as it does in a cluster, so that its Lease shows.
    """
    counts: dict[str, dict[str, int]] = {}
    async with _observed(peer, audited=True) as (plane, api, world):
        audit = Audit(environment.audit_log(plane), environment.OPERATOR)
        elected = _ELECTED if peer is OURS else ()
        async with peers.running(plane, peer, *elected, name="writes") as process:
            await _quiet(process)
            audit.writes()
            for stage, say in (("create", "안녕"), ("edit", "새 글")):
                texts = _texts(count, say)
                world.want(texts)
                await (_create if stage == "create" else _edit)(api, texts)
                if not await world.until_right(_PATIENCE):
                    raise HackError(f"{peer.title}: the {stage} of {count} Messages never ended")
                await asyncio.sleep(5)
                counts[stage] = dict(audit.writes())
            await asyncio.sleep(idle)
            counts["idle"] = dict(audit.writes())
            world.want({})
            await api.each(texts, lambda name: api.request("DELETE", f"{MESSAGES}/{name}"))
            if not await world.until_empty(120):
                raise HackError(f"{peer.title}: the deletion of {count} Messages never ended")
            await asyncio.sleep(5)
            counts["delete"] = dict(audit.writes())
    found: Numbers = {}
    for stage, seen in counts.items():
        total = sum(n for what, n in seen.items() if not what.endswith("leases"))
        found[f"writes_{stage}"] = total if stage == "idle" else total / count
    return found, counts


async def scale(peer: Peer, steps: tuple[int, ...]) -> Numbers:
    """Measure the memory as Messages come, then a start with all of them in order."""
    found: Numbers = {}
    async with _observed(peer, audited=True) as (plane, api, world):
        audit = Audit(environment.audit_log(plane), environment.OPERATOR)
        texts: dict[str, str] = {}
        async with peers.running(plane, peer, name="scale") as process:
            for step in (0, *steps):
                more = _texts(step - len(texts), "안녕", len(texts))
                texts |= more
                world.want(texts)
                await _create(api, more)
                if not await world.until_right(_PATIENCE * max(1, step / 1000)):
                    raise HackError(f"{peer.title}: {step} Messages never got their Pods")
                await _quiet(process)
                found[f"rss_{step}"] = process.rss()
        audit.writes()
        port = _free_port()
        flags = (
            (f"--health-probe-bind-address=127.0.0.1:{port}", "--metrics-bind-address=0")
            if peer is OURS else ()
        )  # fmt: skip
        async with peers.running(plane, peer, *flags, name="restart") as process:
            if peer is OURS:
                found["start_ready"] = await _ready(port) - process.started
            # Whoever has no such endpoint has started when a new Message gets its Pod.
            world.want({"new": "하나"})
            await api.request("POST", MESSAGES, message("new", "하나"))
            done = await world.until_pod("new", 120)
            found["start_pod"] = world.last_pod - process.started if done else None
            await _quiet(process)
            found["start_cpu"] = process.cpu()
            found["start_rss"] = process.rss()
            last = audit.writes()
            # Those of the new Message are no writes of the start.
            found["start_writes"] = max(0, sum(last.values()) - 3)
    return found


async def _ready(port: int) -> float:
    """Wait until /readyz says so; tell when it did."""

    def ask() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if await asyncio.to_thread(ask):
            return time.monotonic()
        await asyncio.sleep(0.02)
    raise HackError("our operator was not ready within 120 s")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def failover(repeats: int) -> list[Numbers]:
    """Measure from the leader's end to the Pod of a Message created right then."""
    found: list[Numbers] = []
    async with _observed() as (plane, api, world):
        for number in range(repeats):
            one: Numbers = {}
            for how in (signal.SIGTERM, signal.SIGKILL):
                one[f"failover_{how.name.lower()}"] = await _fail(plane, api, world, how, number)
            found.append(one)
    return found


async def _fail(
    plane: ControlPlane, api: Api, world: World, how: signal.Signals, number: int
) -> float | None:
    name = f"{how.name.lower()}{number}"
    async with contextlib.AsyncExitStack() as stack:
        replicas = {}
        for replica in (f"{name}-a", f"{name}-b"):
            replicas[replica] = await stack.enter_async_context(
                peers.running(plane, OURS, *_ELECTED, name=replica, env={"POD_NAME": replica})
            )
            await asyncio.sleep(3)
            await _quiet(replicas[replica])
        await _latency(api, world, 2 * number + (how is signal.SIGKILL))
        lease = await api.request("GET", _LEASE)
        leader = replicas[lease["spec"]["holderIdentity"]]
        world.want({name: "하나"})
        ended = time.monotonic()
        leader.process.send_signal(how)
        await api.request("POST", MESSAGES, message(name, "하나"))
        if not await world.until_pod(name, 60):
            return None
        return world.last_pod - ended


async def churn(count: int, minutes: float) -> Numbers:
    """Edit, delete and create Messages for a while; tell the memory before and after."""
    async with _observed() as (plane, api, world):
        texts = _texts(count, "안녕")
        await _create(api, texts)
        world.want(texts)
        async with peers.running(plane, OURS, name="churn") as process:
            end = time.monotonic() + minutes * 60
            rounds = 0
            first = 0.0
            while True:
                if not await world.until_right(_PATIENCE):
                    raise HackError(f"churn: no end after round {rounds}")
                if rounds == 2:  # the allocator has seen all that it will see
                    await _quiet(process)
                    first = process.rss()
                if time.monotonic() > end and rounds > 2:
                    break
                rounds += 1
                kept = list(texts)[count // 5 :]
                gone = list(texts)[: count // 5]
                texts = dict.fromkeys(kept, f"글 {rounds}")
                world.want(texts)
                await api.each(gone, lambda name: api.request("DELETE", f"{MESSAGES}/{name}"))
                await _edit(api, texts)
                more = _texts(len(gone), "안녕", count * rounds)
                texts |= more
                world.want(texts)
                await _create(api, more)
            await _quiet(process)
            return {"churn_first": first, "churn_last": process.rss(), "churn_rounds": rounds}


def machine() -> dict[str, str]:
    """Tell what it is measured on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {"cpu": cpu, "memory": f"{memory:.0f} GiB"}
