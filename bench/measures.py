"""The measurements: each function makes one, on its own control plane.

Each returns a flat dict of numbers, whose names `report` knows; None if it never happened.
Times are in seconds, memory in MB of 2**20 bytes. Used by `run`.
"""

import asyncio
import contextlib
import signal
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

from bench import environment, peers, stage
from bench.api import MESSAGES, NAMESPACE, OPERATOR, Api, message
from bench.environment import Audit
from bench.peers import OURS, Peer
from bench.stage import Numbers
from bench.world import World
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say
from kopf_kit.testing.process import free_port

#: The results of one repeat, by peer.
Created = dict[str, Numbers]

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{peers.LEASE}"
#: More Messages than this are measured on a `crowded` control plane.
_CROWD = 10_000
_ELECTED = ("--leader-elect", f"--lease-namespace={NAMESPACE}")


async def speed(peer: Peer, count: int) -> Numbers:
    """Measure the CPU of a start, and the time and CPU of a backlog, and of an edit of each."""
    found: Numbers = {}
    async with stage.observed(peer) as (plane, api, world):
        async with peers.running(plane, peer, name="start") as process:
            await asyncio.sleep(2)
            await stage.quiet(process)
            found["start_cpu"] = process.cpu()
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        await asyncio.sleep(2)
        world.want(texts)
        async with peers.running(plane, peer) as process:
            done = await world.until_right(stage.PATIENCE)
            found["backlog_pod"] = None if world.podless else world.last_pod - process.started
            found["backlog_status"] = world.last_status - process.started if done else None
            await stage.quiet(process)
            found["backlog_cpu"] = process.cpu()
            found["backlog_rss"] = process.rss()

            texts = stage.texts(count, "새 글")
            world.want(texts)
            began, used = time.monotonic(), process.cpu()
            await stage.edit(api, texts)
            done = await world.until_right(stage.PATIENCE)
            found["edit_pod"] = None if world.podless else world.last_pod - began
            if peer.tells_generation:
                found["edit_status"] = world.last_status - began if done else None
            await stage.quiet(process)
            found["edit_cpu"] = process.cpu() - used
    return found


async def creates(chosen: list[Peer], count: int, singles: int, repeats: int) -> list[Created]:
    """Measure single creates beside `count` Messages; return the results of each repeat, by peer.

    The peers run at the same time, each on its own control plane, and take turns at every create:
    the speed of a host changes within minutes, by more than the difference that is looked for.
    """
    found: list[Created] = []
    async with contextlib.AsyncExitStack() as stack:
        watched = {
            peer.name: await stack.enter_async_context(_full(peer, count)) for peer in chosen
        }
        for repeat in range(repeats):
            taken: dict[str, list[float]] = {name: [] for name in watched}
            for number in range(singles):
                turn = list(watched.items())
                for name, (api, world) in turn[::-1] if number % 2 else turn:
                    one = await stage.latency(api, world, f"single{repeat}-{number:03}")
                    if one is None:
                        raise KitError(f"{name}: Message {number} of {singles} never got its Pod")
                    taken[name].append(one)
            found.append(
                {
                    name: {
                        "create_p50": sorted(times)[len(times) // 2],
                        "create_p99": sorted(times)[int(len(times) * 0.99)],
                    }
                    for name, times in taken.items()
                }
            )
    return found


@contextlib.asynccontextmanager
async def _full(peer: Peer, count: int) -> AsyncIterator[tuple[Api, World]]:
    """Run a peer that has made the Pods of `count` Messages, and has nothing more to do."""
    async with stage.observed(peer) as (plane, api, world):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        world.want(texts)
        async with peers.running(plane, peer, name="creates") as process:
            if not await world.until_right(stage.PATIENCE):
                raise KitError(f"{peer.title}: the backlog of {count} Messages never ended")
            await stage.quiet(process)
            yield api, world


async def writes(
    peer: Peer, count: int, idle: float, turn: asyncio.Lock
) -> tuple[Numbers, dict[str, dict[str, int]]]:
    """Count the operator's writes in the audit log, at each stage of the Messages' life.

    Ours runs with leader election, as in a cluster, so that the writes of its Lease are visible.
    The peers idle at the same time, and work in turn: on a busy machine a Pod takes longer than
    a second, which is worth a status of its own.
    """
    counts: dict[str, dict[str, int]] = {}
    elected = _ELECTED if peer is OURS else ()
    async with contextlib.AsyncExitStack() as stack:
        async with turn:
            plane, api, world = await stack.enter_async_context(stage.observed(peer, audited=True))
            audit = Audit(environment.audit_log(plane), OPERATOR)
            process = await stack.enter_async_context(
                peers.running(plane, peer, *elected, name="writes")
            )
            await stage.quiet(process)
            audit.writes()
            for verb, say in (("create", "안녕"), ("edit", "새 글")):
                texts = stage.texts(count, say)
                world.want(texts)
                await (stage.create if verb == "create" else stage.edit)(api, texts)
                if not await world.until_right(stage.PATIENCE):
                    raise KitError(f"{peer.title}: the {verb} of {count} Messages never ended")
                await asyncio.sleep(5)
                counts[verb] = dict(audit.writes())
        await asyncio.sleep(idle)
        counts["idle"] = dict(audit.writes())
        world.want({})
        await api.each(texts, lambda name: api.request("DELETE", f"{MESSAGES}/{name}"))
        if not await world.until_empty(120):
            raise KitError(f"{peer.title}: the deletion of {count} Messages never ended")
        await asyncio.sleep(5)
        counts["delete"] = dict(audit.writes())
    found: Numbers = {}
    for verb, seen in counts.items():
        total = sum(n for what, n in seen.items() if not what.endswith("leases"))
        found[f"writes_{verb}"] = total if verb == "idle" else total / count
    return found, counts


async def scale(peer: Peer, steps: tuple[int, ...]) -> Numbers:
    """Measure the memory at each number of Messages, then a start with all of them correct."""
    found: Numbers = {}
    last = steps[-1]
    async with stage.observed(peer, audited=True, crowded=last > _CROWD) as (plane, api, world):
        audit = Audit(environment.audit_log(plane), OPERATOR)
        texts: dict[str, str] = {}
        async with peers.running(plane, peer, name="scale") as process:
            for step in steps:
                more = stage.texts(step - len(texts), "안녕", len(texts))
                texts |= more
                world.want(texts)
                async with _telling(world, f"{peer.title}, of {step:,}"):
                    await stage.create(api, more)
                    if not await world.until_right(stage.PATIENCE * max(1, step / 1000)):
                        raise KitError(f"{peer.title}: {step} Messages never got their Pods")
                await stage.quiet(process)
                found[f"rss_{step}"] = process.rss()
        audit.writes()
        port = free_port()
        flags = (
            (f"--health-probe-bind-address=127.0.0.1:{port}", "--metrics-bind-address=0")
            if peer is OURS
            else ()
        )
        async with peers.running(plane, peer, *flags, name="restart") as process:
            await asyncio.sleep(1)  # by now it reads what there is
            world.want({"during": "하나", "after": "하나"})
            await api.request("POST", MESSAGES, message("during", "하나"))
            if peer is OURS:
                ready = await _ready(port)
                found[f"start_ready_{last}"] = ready - process.started
                await api.request("POST", MESSAGES, message("after", "하나"))
            # A peer without such an endpoint has started when a new Message gets its Pod.
            done = await world.until_pod("during", 300)
            since = world.pod_since
            found[f"start_pod_{last}"] = since["during"] - process.started if done else None
            if peer is OURS and done and await world.until_pod("after", 60):
                found[f"start_lag_{last}"] = max(since.values()) - ready
            await stage.quiet(process)
            found[f"start_cpu_{last}"] = process.cpu()
            found[f"start_rss_{last}"] = process.rss()
            # The writes for the new Messages do not belong to the start.
            found[f"start_writes_{last}"] = max(0, sum(audit.writes().values()) - 3 * len(since))
    return found


@contextlib.asynccontextmanager
async def _telling(world: World, what: str) -> AsyncIterator[None]:
    """Say each minute how many Messages and Pods there are."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(60)
            say(f"    {what}: {world.messages:,} Messages, {world.pods:,} Pods")

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


async def _ready(port: int) -> float:
    """Wait until /readyz answers 200; return when it did."""

    def ask() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if await asyncio.to_thread(ask):
            return time.monotonic()
        await asyncio.sleep(0.02)
    raise KitError("our operator was not ready within 300 s")


async def failover(repeats: int) -> list[Numbers]:
    """Measure the time from the leader's end to the Pod of a Message created at that moment."""
    found: list[Numbers] = []
    async with stage.observed() as (plane, api, world):
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
            await stage.quiet(replicas[replica])
        await stage.latency(api, world, f"single-{name}")
        lease = await api.request("GET", _LEASE)
        leader = replicas[lease["spec"]["holderIdentity"].partition("_")[0]]
        world.want({name: "하나"})
        ended = time.monotonic()
        leader.process.send_signal(how)
        await api.request("POST", MESSAGES, message(name, "하나"))
        if not await world.until_pod(name, 60):
            return None
        return world.last_pod - ended


async def churn(count: int, minutes: float) -> Numbers:
    """Edit, delete and create Messages for a while; return the memory before and after."""
    async with stage.observed() as (plane, api, world):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        world.want(texts)
        async with peers.running(plane, OURS, name="churn") as process:
            end = time.monotonic() + minutes * 60
            rounds = 0
            first = 0.0
            while True:
                if not await world.until_right(stage.PATIENCE):
                    raise KitError(f"churn: the Messages are not right after round {rounds}")
                if rounds == 2:  # by now the allocator has seen every kind of work
                    await stage.quiet(process)
                    first = process.rss()
                if time.monotonic() > end and rounds > 2:
                    break
                rounds += 1
                kept = list(texts)[count // 5 :]
                gone = list(texts)[: count // 5]
                texts = dict.fromkeys(kept, f"글 {rounds}")
                world.want(texts)
                await api.each(gone, lambda name: api.request("DELETE", f"{MESSAGES}/{name}"))
                await stage.edit(api, texts)
                more = stage.texts(len(gone), "안녕", count * rounds)
                texts |= more
                world.want(texts)
                await stage.create(api, more)
            await stage.quiet(process)
            return {"churn_first": first, "churn_last": process.rss(), "churn_rounds": rounds}


def machine() -> dict[str, str]:
    """Return the machine's CPU and memory."""
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
