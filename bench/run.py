"""The command: build the peers, measure them in turn, write the data, the tables, the picture.

Called by ``python -m hack bench``. Only the whole form writes to docs/; whatever else is asked for
goes to build/bench/.
"""

import argparse
import asyncio
import datetime
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import measures, peers, report, shipped
from bench.peers import OURS, PEERS, Peer
from hack import golang, paths, pythons, versions
from hack.run import HackError, output
from hack.steps import say, step
from message_operator import __version__

#: What is measured so far, for whoever interrupts it.
UNFINISHED = paths.BUILD / "bench" / "unfinished.json"
_PICTURE = "![Six measures: this operator and its peers](benchmarks.svg)"
_BEGIN, _END = "<!-- begin: written by `make bench` -->", "<!-- end -->"


@dataclass(frozen=True)
class _Plan:
    """How much is measured."""

    messages: int = 1000
    creates: int = 120
    repeats: int = 3
    scale: tuple[int, ...] = (1000, 10000)
    writes: int = 100
    idle: float = 330.0  # contains one of our sweeps, which come every 300 s
    failovers: int = 3
    churn: float = 3.0  # minutes


_QUICK = _Plan(
    messages=100, creates=20, repeats=1, scale=(100, 300), writes=20, idle=10.0,
    failovers=1, churn=0.2,
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Do `make bench`; gives the exit code."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, one repeat, no docs")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES, help="no docs")
    parser.add_argument("--peers", nargs="+", choices=[p.name for p in PEERS], help="no docs")
    parser.add_argument("--report", action="store_true", help="write the docs of the data anew")
    numbers = {"repeats": int, "messages": int, "idle": float, "churn": float}
    for name, kind in numbers.items():
        parser.add_argument(f"--{name}", type=kind, metavar="N", help="another number; no docs")
    asked = parser.parse_args(argv)
    docs = paths.CHECKOUT / "docs"
    if asked.report:
        _write(json.loads((docs / "benchmarks.json").read_text()), docs)
        return 0
    own = {name: getattr(asked, name) for name in numbers if getattr(asked, name) is not None}
    plan = _Plan(**{**(vars(_QUICK) if asked.quick else {}), **own})
    whole = plan == _Plan() and asked.only == MEASURES and not asked.peers
    target = docs if whole else paths.BUILD / "bench"
    for folder in (target, UNFINISHED.parent):
        folder.mkdir(parents=True, exist_ok=True)
    peers.build()
    chosen = [peer for peer in PEERS if not asked.peers or peer.name in asked.peers]
    data = asyncio.run(_measure(plan, asked.only, chosen, argv))
    _write(data, target)
    UNFINISHED.unlink()
    return 0


class _Record:
    """The data as they come."""

    def __init__(self, plan: _Plan, argv: Sequence[str]) -> None:
        self.data = _about(plan, argv)
        self._began = time.monotonic()

    def keep(
        self, measure: str, peer: str, repeat: int, numbers: measures.Numbers, **more: Any
    ) -> None:
        """Take in one measurement, and show it."""
        one = {"measure": measure, "peer": peer, "repeat": repeat, "numbers": numbers, **more}
        self.data["runs"].append(one)
        UNFINISHED.write_text(json.dumps(self.data, indent=1, ensure_ascii=False))
        shown = ", ".join(
            f"{name} {'never' if value is None else format(value, '.3g')}"
            for name, value in numbers.items()
        )
        say(f"    [{time.monotonic() - self._began:4.0f} s] {peer}: {shown}")


async def _measure(
    plan: _Plan, only: Sequence[str], chosen: list[Peer], argv: Sequence[str]
) -> dict[str, Any]:
    record = _Record(plan, argv)
    for name, measure in _ALONE.items():
        if name in only:
            await measure(plan, chosen, record)
    together = [measure for name, measure in _TOGETHER.items() if name in only]
    await asyncio.gather(*(measure(plan, chosen, record) for measure in together))
    return record.data


async def _speed(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    named = {peer.name: peer for peer in chosen}
    for repeat in range(plan.repeats):
        record.data["load"].append(os.getloadavg()[0])
        say(f"==> Speed, repeat {repeat + 1} of {plan.repeats}")
        for name in _order([*named, report.FLOOR], repeat):
            if name != report.FLOOR and named[name].slow and repeat:
                continue
            if name == report.FLOOR:
                numbers = await measures.floor(plan.messages)
            else:
                numbers = await measures.speed(named[name], plan.messages, plan.creates)
            record.keep("speed", name, repeat, numbers)


async def _writes(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    say(f"==> Writes, all peers at once, with {plan.idle:g} idle seconds")
    found = await asyncio.gather(
        *(measures.writes(peer, plan.writes, plan.idle) for peer in chosen)
    )
    for peer, (numbers, counts) in zip(chosen, found, strict=True):
        record.keep("writes", peer.name, 0, numbers, counts=counts)


async def _scale(plan: _Plan, chosen: list[Peer], record: _Record) -> None:
    say(f"==> Memory and start, {plan.scale[-1]:,} Messages")
    for peer in chosen:
        if peer.scales:
            record.keep("scale", peer.name, 0, await measures.scale(peer, plan.scale))


async def _failover(plan: _Plan, _: list[Peer], record: _Record) -> None:
    say("==> Failover")
    for repeat, numbers in enumerate(await measures.failover(plan.failovers)):
        record.keep("failover", OURS.name, repeat, numbers)


async def _churn(plan: _Plan, _: list[Peer], record: _Record) -> None:
    say(f"==> Churn, {plan.churn:g} minutes")
    record.keep("churn", OURS.name, 0, await measures.churn(plan.messages, plan.churn))


#: What needs the machine for itself, and what mostly waits.
_ALONE = {"speed": _speed, "scale": _scale}
_TOGETHER = {"writes": _writes, "failover": _failover, "churn": _churn}
MEASURES = (*_ALONE, *_TOGETHER)


def _order(names: list[str], repeat: int) -> list[str]:
    """Alternate the order, so that nobody always runs first or after the same one."""
    turned = names[repeat % len(names) :] + names[: repeat % len(names)]
    return turned[::-1] if repeat % 2 else turned


def _about(plan: _Plan, argv: Sequence[str]) -> dict[str, Any]:
    """Tell where, when and how it is measured."""
    go = output([golang.go(), "version"]).split()[2].removeprefix("go")
    return {
        "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": f'make bench ARGS="{" ".join(argv)}"' if argv else "make bench",
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
        "load": [],
        "runs": [],
    }


def _module(name: str) -> str:
    sums = golang.PROGRAMS["controller-runtime-peer"].folder / "go.mod"
    line = next(line for line in sums.read_text().splitlines() if line.strip().startswith(name))
    return line.split()[1]


def _write(data: dict[str, Any], target: Path) -> None:
    """Write the data, the page and the picture."""
    source = target / "benchmarks.json"
    source.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    page = target / "benchmarks.md"
    template = (paths.CHECKOUT / "docs" / "benchmarks.md").read_text()
    head, found, rest = template.partition(_BEGIN)
    _, ended, foot = rest.partition(_END)
    if not found or not ended:
        raise HackError(
            f"docs/benchmarks.md lacks the lines {_BEGIN!r} and {_END!r}: put them back"
        )
    page.write_text(
        f"{head}{_BEGIN}\n{_PICTURE}\n\n{report.told(data)}\n\n{report.tables(data)}\n{_END}{foot}"
    )
    plotting = pythons.python("plotting-python", paths.CHECKOUT / "requirements" / "bench.txt")
    with step("The picture") as work:
        work.run(
            [plotting, "-m", "bench.picture", source, target / "benchmarks.svg"],
            timeout=120,
            cwd=paths.CHECKOUT,
        )
    say(report.tables(data))
    say(f"Written: {page}, {source}, {target / 'benchmarks.svg'}")
