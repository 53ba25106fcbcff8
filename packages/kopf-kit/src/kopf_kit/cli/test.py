"""`kopf-kit check`, `test` and `test-all`: the tiers of tests/tiers.toml; `slowest`.

A repository without that file has the kit's own tiers: `kopf_kit.cli.lanes.DEFAULT`.

    kopf-kit test --tier unit,chart          only these tiers
    kopf-kit test --tier faults -k frozen    further words go to pytest
    kopf-kit test-all --part olm             of a tier, the quick and the long part
    kopf-kit test --list                     tell what would run, and end

Each tier's output and pytest's reports are in build/test.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click

from kopf_kit.cli import lanes
from kopf_kit.cli.lanes import Result, Set, Tier
from kopf_kit.program import PASSES_ON
from kopf_kit.rig import cluster, engine, paths, public_images
from kopf_kit.rig.run import KitError, elapsed
from kopf_kit.rig.steps import say

_OURS = paths.CHECKOUT / "tests" / "tiers.toml"
TIERS = _OURS if _OURS.is_file() else lanes.DEFAULT
_COMMANDS = {"check": "kopf-kit check", "test": "kopf-kit test", "all": "kopf-kit test-all"}


def _of_a_set(set_name: Set, text: str) -> click.Command:
    """Return the command that runs a set of tiers, or those that its options name."""

    @click.command(context_settings=PASSES_ON, help=text)
    @click.option("--tier", "--part", "names", multiple=True, help="Only these: NAME[,NAME…].")
    @click.option("--list", "tell", is_flag=True, help="Print what would run, and exit.")
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST'S OPTIONS]")
    def command(names: tuple[str, ...], *, tell: bool, rest: tuple[str, ...]) -> int:
        chosen = [name for part in names for name in part.split(",")]
        return run(set_name, rest, names=chosen, tell=tell)

    return command


check = _of_a_set("check", "Run the tiers of tests that need no cluster.")
test = _of_a_set("test", "Run the tiers that must pass before a change lands.")
test_all = _of_a_set("all", "Run all tiers.")


@click.command(context_settings=PASSES_ON)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST'S OPTIONS]")
def faults(rest: tuple[str, ...]) -> int:
    """Run the tier `faults`: the operator is killed, and its requests fail, at every write."""
    return run("test", rest, names=["faults"])


@click.command()
def slowest() -> None:  # noqa: D103 (the program has its help)
    lines = lanes.slowest(paths.BUILD / "test")
    if not lines:
        raise KitError("there is no report of a run in build/test; `kopf-kit test` writes one")
    print("\n".join(lines))


def run(
    set_name: Set,
    options: Sequence[str],
    file: Path = TIERS,
    build: Path = paths.BUILD,
    *,
    names: Sequence[str] = (),
    tell: bool = False,
) -> int:
    """Run a set's tiers, or the named ones; return 0 only if none failed.

    `options` go to pytest; `tell` only prints what would run.
    """
    tiers = lanes.read(file)
    chosen = lanes.choose(tiers, names, with_long=set_name == "all")
    chosen = _possible(chosen or lanes.of_set(tiers, set_name))
    _tell(_COMMANDS[set_name], chosen, build / "test")
    if tell or not chosen:
        return 0
    if any(due.cluster for due in chosen):
        _check_machine()
    return _run(chosen, options, build)


def _check_machine() -> None:
    """Raise KitError with what is missing for tests with a cluster, and how to get it."""
    if not cluster.is_existing():
        engine.up()
        public_images.are_in_reach()


def _run(tiers: list[Tier], options: Sequence[str], build: Path) -> int:
    # A tier of a run that is within a test of another one leaves the latter's files alone.
    folder = build / "test" / os.environ.get(lanes.WITHIN, "")
    folder.mkdir(parents=True, exist_ok=True)
    ours = {f"{due.name}.log" for due in tiers}  # another run may still write the others
    for former in (*folder.glob("*.xml"), *folder.glob("*.log")):
        if former.suffix == ".xml" or former.name in ours:
            former.unlink()

    def ended(result: Result) -> None:
        if len(tiers) > 1:
            say(str(result))

    began = time.monotonic()
    results = lanes.Run(folder, options, ended)(tiers, show=len(tiers) == 1)
    order = [tier.name for tier in tiers]
    results.sort(key=lambda result: order.index(result.tier.name))
    failed = [result for result in results if result.code]
    print("\n" + "\n".join(map(str, results)), flush=True)
    took = elapsed(time.monotonic() - began)
    print(
        f"{len(failed)} of {len(results)} tiers failed, in {took}; `kopf-kit slowest`", flush=True
    )
    if len(tiers) > 1:
        for result in failed:
            print(lanes.last_words(result), flush=True)
    return 1 if failed else 0


def _possible(tiers: list[Tier]) -> list[Tier]:
    """With CLUSTER=existing, leave out the tiers that need a kind cluster; return the others."""
    if not cluster.is_existing():
        return tiers
    for lacking in (lacking for lacking in tiers if lacking.own_cluster):
        say(f"  left out with CLUSTER=existing: {lacking.name}")
    return [tier for tier in tiers if not tier.own_cluster]


def _tell(command: str, tiers: list[Tier], folder: Path) -> None:
    """Print what will run."""
    lines = [f"{command}: {len(tiers)} tiers, logs in {folder}"]
    for lane in lanes.LANES:
        ours = [tier for tier in tiers if tier.lane == lane]
        lines += [f"  what {lane}"] if ours else []
        lines += [f"    {due.name:<14}  {due.says}" for due in ours]
    say("\n".join(lines))
