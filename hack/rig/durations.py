"""Durations of steps, and an estimate of the remaining time; used by `hack.rig.steps`.

The duration of each step is stored on this machine. For a step that has not run here yet, we use
its duration on another machine, scaled by this machine's speed so far.
"""

import contextlib
import json
import re
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from hack.rig import paths

#: The steps if no image registry can be reached, in order, with their seconds on two processors;
#: 0 for a step that runs at the same time as a longer one.
BUILT = {
    "node-base from Debian bookworm": 0.0,
    "kube-proxy-base from Debian bookworm": 0.0,
    "registry from Debian trixie": 0.0,
    "python-build-base from Debian trixie": 0.0,
    "python-runtime-base from Debian trixie": 0.0,
    "busybox from Debian trixie": 0.0,
    "Go programs": 400.0,
    "Node image for Kubernetes": 15.0,
}
#: The step if no Docker engine answers.
ENGINE = {
    "Docker engine: Debian packages": 20.0,
    "Docker engine: start": 3.0,
}
#: The steps that create a cluster.
CLUSTER = {
    **ENGINE,
    **BUILT,
    "kind cluster": 27.0,
    "Registry on": 1.0,
}
#: The steps of `make demo`: a cluster, and the operator in it.
DEMO = {
    **CLUSTER,
    "Image": 8.0,
    "Push": 3.0,
    "Chart into the registry": 1.0,
    "The operator, by Helm": 7.0,
}


def name(title: str) -> str:
    """Return the name of a step without versions, addresses and (details)."""
    return " ".join(re.sub(r"\(.*?\)|\S*\d\S*", "", title).split())


class Plan:
    """The remaining steps, and their expected durations."""

    def __init__(self, steps: Mapping[str, float]) -> None:
        here = remembered()
        self._order = list(steps)
        self._seconds = {
            step: here.get(step, seconds) if seconds else 0.0 for step, seconds in steps.items()
        }
        #: The expected and the actual durations of the completed steps.
        self._expected = self._took = 0.0

    def number(self, title: str) -> str | None:
        """Return a step's position in the plan, such as 3/14, or None if it is not part of it."""
        step = name(title)
        return f"{self._order.index(step) + 1}/{len(self._order)}" if step in self._order else None

    def skip(self, steps: Collection[str]) -> None:
        """Remove steps that are not needed."""
        self._order = [step for step in self._order if step not in steps]

    def done(self, title: str, seconds: float) -> None:
        """Record a completed step, which shows how fast this machine is."""
        if expected := self._seconds.get(name(title)):
            self._expected += expected
            self._took += seconds

    def left(self, title: str, took: float, fraction: float | None) -> float | None:
        """Estimate the seconds until the end of the plan, given a running step.

        `took` is the step's duration so far, for `fraction` of its work. The estimate is None for a
        step without a duration of its own. All steps before it count as done.
        """
        step = name(title)
        if not (expected := self._seconds.get(step)):
            return None
        total = took / fraction if fraction else None
        if total:
            scale = (self._took + total) / (self._expected + expected)
        else:
            scale = self._took / self._expected if self._expected else 1.0
            total = max(scale * expected, took)
        later = self._order[self._order.index(step) + 1 :]
        return total - took + scale * sum(self._seconds[one] for one in later)


def remembered() -> dict[str, float]:
    """Return the last durations of steps on this machine, in seconds."""
    with contextlib.suppress(OSError, ValueError):
        return {str(step): float(took) for step, took in json.loads(_file().read_text()).items()}
    return {}


def remember(title: str, seconds: float) -> None:
    """Store a step's duration for the next run."""
    unfinished = _file().with_suffix(f".{threading.get_native_id()}")
    unfinished.write_text(json.dumps(remembered() | {name(title): round(seconds, 1)}, indent=1))
    unfinished.replace(_file())


def _file() -> Path:
    return paths.cache() / "durations.json"
