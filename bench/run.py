"""The command: builds the peers, measures them in turn, writes the data and the tables.

`python -m bench` calls it. A full measurement with every peer replaces the previous one in docs/;
anything smaller goes to build/bench/.
"""

import argparse
import asyncio
import dataclasses
import datetime
import json
import os
import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench import (
    bare,
    examples,
    measures,
    peers,
    report,
    reviews,
    shipped,
    slices,
    stage,
    traces,
    trouble,
)
from bench.peers import FLOOR, MEMCACHEDS, OURS, PEERS, REVIEWED, TUNED, TUTORIAL, Peer
from kopf_kit.rig import paths, versions
from kopf_kit.rig.run import output
from kopf_kit.rig.steps import say
from kopf_offline import golang
from message_operator import __version__

#: How much more CPU than the page's, relative to Go's, `--quick` accepts: repeats scatter by 5 %.
TOLERATED = 1.15

#: The data of the pages.
_DATA = paths.CHECKOUT / "docs" / "benchmarks.json"

#: The data so far, in case the run is interrupted.
UNFINISHED = paths.BUILD / "bench" / "unfinished.json"


@dataclass(frozen=True)
class _Plan:
    """How much is measured."""

    messages: int = 1000
    creates: int = 500  # the p99 of fewer is one or two of them
    repeats: int = 3
    scale: tuple[int, ...] = (0, 1000, 10000)
    large: int = 100_000
    sliced: int = 2000  # Messages, in the namespaces that two releases share
    late: int = 300  # Messages, while each answer of the API server is late
    stuck: int = 100  # Messages of a neighbour whose webhook hangs
    beside: int = 60  # creates before it hangs, and while it does
    writes: int = 100
    idle: float = 330.0  # contains one of our resyncs, which come every 300 s
    failovers: int = 3
    churn: float = 3.0  # minutes
    floor: bool = True
    memcacheds: int = 1000
    reviews: int = 1000


_SMALL = _Plan(
    messages=100,
    creates=20,
    repeats=1,
    scale=(0, 100, 300),
    large=500,
    sliced=100,
    late=100,
    stuck=20,
    beside=10,
    writes=20,
    idle=10.0,
    failovers=1,
    churn=0.2,
    memcacheds=100,
    reviews=100,
)


def main(argv: Sequence[str]) -> int:
    """Run `make bench`; return the exit code."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--small", action="store_true", help="small numbers, one repeat, no docs")
    parser.add_argument(
        "--quick", action="store_true", help="CPU alone, beside Go; fail if it grew; no docs"
    )
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--peers", nargs="+", choices=[p.name for p in PEERS], help="no docs")
    parser.add_argument("--report", action="store_true", help="write the docs again, from the data")
    numbers = {"repeats": int, "messages": int, "idle": float, "churn": float}
    for name, kind in numbers.items():
        parser.add_argument(f"--{name}", type=kind, metavar="N", help="another number; no docs")
    asked = parser.parse_args(argv)
    former = json.loads(_DATA.read_text())
    if asked.report:
        _write(former, full=True)
        return 0
    own = {name: getattr(asked, name) for name in numbers if getattr(asked, name) is not None}
    if asked.quick:
        asked.only, asked.peers, own["floor"] = ["speed"], [OURS.name, TUNED.name], False
    plan = _Plan(**{**(vars(_SMALL) if asked.small else {}), **own})
    full = plan == _Plan() and not asked.peers
    UNFINISHED.parent.mkdir(parents=True, exist_ok=True)
    peers.build()
    chosen = [peer for peer in PEERS if not asked.peers or peer.name in asked.peers]
    data = asyncio.run(_measure(plan, asked.only, chosen))
    _write(_merged(former, data) if full else data, full=full)
    UNFINISHED.unlink()
    return compared(former, data) if asked.quick else 0


def compared(former: report.Data, data: report.Data) -> int:
    """Compare our CPU, relative to Go's, with the page's; return the exit code."""
    grown = False
    for name, of in (("backlog_cpu", "the start and the backlog"), ("edit_cpu", "the edits")):
        before, now = (median(report.ratios(each, name, TUNED.name)) for each in (former, data))
        say(f"CPU of {of}: {now:.2f} times Go's, {before:.2f} on the page")
        grown = grown or now > before * TOLERATED
    if grown:
        say(f"More than {TOLERATED:g} times the page's: profile what changed since.")
    return int(grown)


def _merged(former: report.Data, data: report.Data) -> report.Data:
    """Return the new data, with the former measurements that were not repeated."""
    kept = {
        name: entry for name, entry in former["measured"].items() if name not in data["measured"]
    }
    return {
        **data,
        "measured": {**kept, **data["measured"]},
        "runs": [run for run in former["runs"] if run["measure"] in kept] + data["runs"],
    }


class _Record:
    """Collects the data of a run."""

    def __init__(self, plan: _Plan) -> None:
        self.data = _about(plan)
        self._began = time.monotonic()

    def begin(self, measure: str) -> None:
        """Record when a measurement begins, and the machine's load."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        noted = self.data["measured"].setdefault(measure, {"when": now, "load": []})
        noted["load"].append(round(os.getloadavg()[0], 2))

    def keep(
        self, measure: str, peer: str, repeat: int, numbers: stage.Numbers, **more: Any
    ) -> None:
        """Record one measurement, and print it."""
        one = {"measure": measure, "peer": peer, "repeat": repeat, "numbers": numbers, **more}
        self.data["runs"].append(one)
        UNFINISHED.write_text(json.dumps(self.data, indent=1, ensure_ascii=False))
        shown = ", ".join(
            f"{name} {'never' if value is None else format(value, '.3g')}"
            for name, value in numbers.items()
        )
        say(f"    [{time.monotonic() - self._began:4.0f} s] {peer}: {shown}")


async def _measure(plan: _Plan, only: Sequence[str], chosen: list[Peer]) -> report.Data:
    record = _Record(plan)
    for name, measure in _ALONE.items():
        if name in only:
            await measure(plan, chosen, record)
    together = [measure for name, measure in _TOGETHER.items() if name in only]
    await asyncio.gather(*(measure(plan, chosen, record) for measure in together))
    return record.data


async def _speed(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    named = {peer.name: peer for peer in chosen}
    for repeat in range(plan.repeats):
        record.begin("speed")
        say(f"==> Speed, repeat {repeat + 1} of {plan.repeats}")
        for name in _order([*named, *([FLOOR.name] if plan.floor else [])], repeat):
            if name == FLOOR.name:
                numbers = await bare.floor(plan.messages)
            else:
                numbers = await measures.speed(named[name], plan.messages)
            record.keep("speed", name, repeat, numbers)


async def _creates(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    record.begin("creates")
    say("==> Single creates")
    group = [*chosen, FLOOR]
    found = await measures.creates(group, plan.messages, plan.creates, plan.repeats)
    for repeat, results in enumerate(found):
        for name, numbers in results.items():
            record.keep("creates", name, repeat, numbers)


async def _lost(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    able = [peer for peer in chosen if peer is not TUTORIAL]
    say("==> Lost answers")
    await _repeated("lost", lambda peer: trouble.lost(peer, plan.messages), able, plan, record)


async def _late(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    if OURS in chosen:  # a peer with few workers would take hours
        say(f"==> Answers that are {trouble.LATE:g} s late")
        await _repeated("late", lambda peer: trouble.late(peer, plan.late), [OURS], plan, record)


async def _slices(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    if OURS in chosen:
        say("==> One release over all namespaces, and two over half of them each")
        await _repeated("slices", lambda _: slices.slices(plan.sliced), [OURS], plan, record)


async def _fairness(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    record.begin("fairness")
    say(f"==> Beside {plan.stuck} Messages that a hanging webhook holds")
    for peer in chosen:
        if peer is not TUTORIAL:
            numbers = await trouble.fairness(peer, plan.stuck, plan.beside)
            record.keep("fairness", peer.name, 0, numbers)


async def _scale(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    await _scaled("scale", plan.scale, chosen, plan, record)


async def _large(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    once = dataclasses.replace(plan, repeats=1)  # a run takes a quarter of an hour
    await _scaled("large", (plan.large,), chosen, once, record)


async def _scaled(
    measure: str, steps: tuple[int, ...], chosen: list[Peer], plan: _Plan, record: _Record
) -> None:
    say(f"==> Memory and start, {steps[-1]:,} Messages")
    of = [peer for peer in chosen if peer.scales >= steps[-1]]
    await _repeated(measure, lambda peer: measures.scale(peer, steps), of, plan, record)


async def _memcached(plan: _Plan, _: list[Peer], record: _Record) -> None:
    count = plan.memcacheds
    say(f"==> {count:,} Memcacheds")
    await _repeated(
        "memcached", lambda peer: examples.memcached(peer, count), MEMCACHEDS, plan, record
    )


async def _reviews(plan: _Plan, _: list[Peer], record: _Record) -> None:
    count = plan.reviews
    say(f"==> {count:,} reviews")
    await _repeated("reviews", lambda peer: reviews.reviews(peer, count), REVIEWED, plan, record)


async def _repeated(
    measure: str,
    measured: Callable[[Peer], Awaitable[stage.Numbers]],
    of: Sequence[Peer],
    plan: _Plan,
    record: _Record,
) -> None:
    """Measure each peer as often as the plan says, in turn."""
    named = {peer.name: peer for peer in of}
    for repeat in range(plan.repeats):
        record.begin(measure)
        for name in _order([*named], repeat):
            record.keep(measure, name, repeat, await measured(named[name]))


async def _traces(plan: _Plan, _: list[Peer], record: _Record) -> None:
    for repeat in range(plan.repeats):
        record.begin("traces")
        say(f"==> Traces, repeat {repeat + 1} of {plan.repeats}")
        record.keep("traces", OURS.name, repeat, await traces.traces(plan.messages))


async def _writes(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    record.begin("writes")
    say(f"==> Writes, with {plan.idle:g} idle seconds for all peers at once")
    turn = asyncio.Lock()
    found = await asyncio.gather(
        *(measures.writes(peer, plan.writes, plan.idle, turn) for peer in chosen)
    )
    for peer, (numbers, counts) in zip(chosen, found, strict=True):
        record.keep("writes", peer.name, 0, numbers, counts=counts)


async def _failover(plan: _Plan, _: list[Peer], record: _Record) -> None:
    record.begin("failover")
    say("==> Failover")
    for repeat, numbers in enumerate(await measures.failover(plan.failovers)):
        record.keep("failover", OURS.name, repeat, numbers)


async def _churn(plan: _Plan, _: list[Peer], record: _Record) -> None:
    record.begin("churn")
    say(f"==> Churn, {plan.churn:g} minutes")
    record.keep("churn", OURS.name, 0, await measures.churn(plan.messages, plan.churn))


#: Measurements that need the machine for themselves, and those that mostly wait.
_ALONE = {
    "speed": _speed,
    "creates": _creates,
    "lost": _lost,
    "late": _late,
    "slices": _slices,
    "fairness": _fairness,
    "scale": _scale,
    "large": _large,
    "memcached": _memcached,
    "reviews": _reviews,
    "traces": _traces,
    "churn": _churn,
}
_TOGETHER = {"writes": _writes, "failover": _failover}
MEASURES = (*_ALONE, *_TOGETHER)


def _order(names: list[str], repeat: int) -> list[str]:
    """Return the order of a repeat, so that no peer always runs first or after the same one."""
    turned = names[repeat % len(names) :] + names[: repeat % len(names)]
    return turned[::-1] if repeat % 2 else turned


def _about(plan: _Plan) -> report.Data:
    """Return empty data with the machine, the versions and the settings."""
    go = output([golang.go(), "version"]).split()[2].removeprefix("go")
    return {
        "machine": {
            **measures.machine(),
            "processors": os.cpu_count(),
            "system": f"Linux {platform.release()}",
        },
        "versions": {
            "message-operator": __version__,
            "Python": shipped.version(),
            "kopf": version("kopf"),
            "aiohttp": version("aiohttp"),
            "Go": go,
            "controller-runtime": _module("sigs.k8s.io/controller-runtime"),
            "Kubernetes": versions.KUBERNETES,
            "etcd": versions.ETCD,
            "kwok": versions.KWOK,
        },
        "settings": vars(plan),
        "measured": {},
        "runs": [],
    }


def _module(name: str) -> str:
    sums = peers.IN_GO["controller-runtime-peer"].folder / "go.mod"
    line = next(line for line in sums.read_text().splitlines() if line.strip().startswith(name))
    return line.split()[1]


def _write(data: report.Data, *, full: bool) -> None:
    """Write the data and the pages: those of the repository, or all into build/bench/."""
    text = json.dumps(data, ensure_ascii=False).replace(', {"', ',\n{"')  # a line for each run
    pages = {str(_DATA.relative_to(paths.CHECKOUT)): text + "\n", **report.written(data)}
    for name, text in pages.items():
        (paths.CHECKOUT / name if full else UNFINISHED.with_name(Path(name).name)).write_text(text)
    say("\n\n".join(report.parts(data).values()))
    say(f"Written{'' if full else ' to build/bench'}: {', '.join(pages)}")
