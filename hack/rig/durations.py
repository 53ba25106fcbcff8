"""How long steps take, and what that says of the rest; used by `hack.rig.steps`.

What a step took is remembered on this machine. A step that has not run here yet counts as what it
took on another machine, scaled by how this one has done so far.
"""

import contextlib
import json
import re
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from hack.rig import paths

#: What is made where no image registry is reached, in order, with the seconds that it takes on two
#: processors; 0 for what runs beside a longer step.
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
#: What is done where no Docker engine answers.
ENGINE = {
    "Docker engine: Debian packages": 20.0,
    "Docker engine: start": 3.0,
}
#: The steps to a cluster.
CLUSTER = {
    **ENGINE,
    **BUILT,
    "kind cluster": 27.0,
    "Registry on": 1.0,
}
#: What `make demo` does: a cluster, and the operator in it.
DEMO = {
    **CLUSTER,
    "Image": 8.0,
    "Push": 3.0,
    "Chart into the registry": 1.0,
    "The operator, by Helm": 7.0,
}


def name(title: str) -> str:
    """Return what a step is called on every machine: without versions, addresses and (details)."""
    return " ".join(re.sub(r"\(.*?\)|\S*\d\S*", "", title).split())


class Plan:
    """The steps to come, and the time that they are expected to take."""

    def __init__(self, steps: Mapping[str, float]) -> None:
        here = remembered()
        self._order = list(steps)
        self._seconds = {
            step: here.get(step, seconds) if seconds else 0.0 for step, seconds in steps.items()
        }
        #: What the steps that have ended were expected to take, and took.
        self._expected = self._took = 0.0

    def number(self, title: str) -> str | None:
        """Return where a step is in the plan, such as 3/14; None if it is not in it."""
        step = name(title)
        return f"{self._order.index(step) + 1}/{len(self._order)}" if step in self._order else None

    def skip(self, steps: Collection[str]) -> None:
        """Forget steps that are not needed."""
        self._order = [step for step in self._order if step not in steps]

    def done(self, title: str, seconds: float) -> None:
        """Learn from a step that has ended how quick this machine is."""
        if expected := self._seconds.get(name(title)):
            self._expected += expected
            self._took += seconds

    def left(self, title: str, took: float, fraction: float | None) -> float | None:
        """Estimate the seconds from now to the end of the plan, from a step that runs.

        `took` is what the step has taken so far, for `fraction` of its work. The estimate is None
        for a step that costs no time of its own. Steps before it had nothing to do, or are done.
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
    """Return the seconds that steps took here when they last ran."""
    with contextlib.suppress(OSError, ValueError):
        return {str(step): float(took) for step, took in json.loads(_file().read_text()).items()}
    return {}


def remember(title: str, seconds: float) -> None:
    """Keep what a step took, for the next time."""
    unfinished = _file().with_suffix(f".{threading.get_native_id()}")
    unfinished.write_text(json.dumps(remembered() | {name(title): round(seconds, 1)}, indent=1))
    unfinished.replace(_file())


def _file() -> Path:
    return paths.cache() / "durations.json"
