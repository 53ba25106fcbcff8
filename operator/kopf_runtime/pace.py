"""Bounds how often a child is replaced: what ends at once must not come back as fast as it can.

A few replacements are free; from then on each waits twice as long as the one before. The count is
kept in an annotation of the child, so it survives the operator; a child that stayed for a while
begins again at none. (A DaemonSet keeps such a back-off for Pods that fail.) An edit counts, too,
but it never waits for long, whatever the annotation says: anybody may have written that.
"""

from collections import OrderedDict
from dataclasses import dataclass

from kopf_runtime.kinds import Key, Kind
from kopf_runtime.plan import Plan, gone
from kopf_runtime.records import Child, Wanted

#: Replacements in a row without a pause, and the longest pause in seconds.
FREE, LONGEST = 5, 300.0
#: Replacements that an edit counts as at most: it waits no longer than 8 seconds.
EDITED = FREE + 3
#: The most that is counted.
MOST = 99
#: Seconds that a child must stay, beyond its pause, for the count to begin again.
STAYED = 60.0
#: Lost children that are remembered until the next one is made.
REMEMBERED = 4096


def pause(replaced: int) -> float:
    """Return the seconds from the making of a child until it may be replaced."""
    return 0.0 if replaced < FREE else min(LONGEST, 2.0 ** min(replaced - FREE, 16))


def _replaced(child: Child, plan: Plan) -> int:
    return min(child.replaced, EDITED) if plan.edited else child.replaced


def _until(child: Child, replaced: int) -> float:
    """Return when the next child may be made; what is free does not ask the clocks."""
    return child.created + pause(replaced) if replaced >= FREE else 0.0


@dataclass(frozen=True, slots=True)
class Former:
    """A child that is gone, or about to go."""

    uid: str
    #: The uid of the object whose child it was.
    owner: str
    #: Why another one follows.
    cause: Plan
    #: How many replacements in a row the next one is.
    count: int
    #: When the next one may be made, by the API server's clock in seconds of Unix time.
    until: float


class Pace:
    """Remembers children that are gone until the next ones are made; times are the server's."""

    def __init__(self) -> None:
        self._former: OrderedDict[tuple[Kind, Key], Former] = OrderedDict()

    def wait(self, child: Child, plan: Plan, now: float) -> float:
        """Return the seconds until the child may be replaced as planned."""
        return max(0.0, _until(child, _replaced(child, plan)) - now)

    def lost(self, kind: Kind, child: Child, now: float) -> None:
        """Take in that a child is gone by itself, unless its end was to be expected."""
        known = self._former.get((kind, child.key))
        if known is None or known.uid != child.uid:
            self.deleted(kind, child, now, child.owner or child.made_for, gone(kind))

    def deleted(self, kind: Kind, child: Child, now: float, owner: str, cause: Plan) -> None:
        """Take in that the operator deleted a child, on behalf of which object, and why."""
        replaced = _replaced(child, cause)
        stayed = now - child.created > STAYED + 2 * pause(replaced)
        count = 0 if stayed else min(replaced + 1, MOST)
        former = Former(child.uid, owner, cause, count, _until(child, replaced))
        self._former[kind, child.key] = former
        if len(self._former) > REMEMBERED:
            self._former.popitem(last=False)

    def former(self, wanted: Wanted, owner: str) -> Former | None:
        """Return the child of an object that the next one follows, None if none is known."""
        former = self._former.get((wanted.kind, wanted.key))
        return former if former is not None and former.owner == owner else None

    def made(self, kind: Kind, child: Child) -> None:
        """Take in that a child is there, whichever replica made it; forget the one before."""
        former = self._former.get((kind, child.key))
        if former is not None and former.uid != child.uid:  # else it is late news of the former
            del self._former[kind, child.key]
