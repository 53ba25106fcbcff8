"""Limits how often a child is replaced, so that one that ends at once does not come back at once.

A few replacements are free; then each waits twice as long as the one before. The count is
kept in an annotation of the child, so it survives the operator; a child that stayed for a while
begins again at none. (A DaemonSet keeps such a back-off for Pods that fail.) Anybody may write the
annotation: one that was lowered or taken away does not count, as long as this process remembers
more, and an edit, which counts too, never waits for long, whatever the annotation says.
"""

from collections import OrderedDict

from msgspec import Struct

from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.records import Child, Plan, Wanted, gone

#: Replacements in a row without a pause, and the longest pause in seconds.
FREE, MAX_PAUSE_SECONDS = 5, 300.0
#: Replacements that an edit counts as at most: it waits no longer than 8 seconds.
EDITED = FREE + 3
#: The most that is counted.
MAX_COUNT = 99
#: Seconds that a child must stay, beyond its pause, for the count to begin again.
STAYED = 60.0
#: Lost children that are remembered until the next one is made.
REMEMBERED = 4096


def pause(replaced: int) -> float:
    """Return the seconds from the creation of a child until it may be replaced."""
    return 0.0 if replaced < FREE else min(MAX_PAUSE_SECONDS, 2.0 ** min(replaced - FREE, 16))


def _wait(at: float, count: int, now: float) -> float:
    """Return the seconds that a pause still lasts; a clock that goes back does not lengthen it."""
    return min(pause(count), max(0.0, at + pause(count) - now))


class Former(Struct, frozen=True):
    """A child that is gone or being deleted."""

    uid: str
    #: The uid of its owner.
    owner: str
    #: Why another one follows.
    cause: Plan
    #: The number of replacements in a row, including the next one.
    count: int
    #: When the next one may be created, by the API server's clock in seconds of Unix time; 0: now.
    until: float


class Pace:
    """Remembers former children until their successors are created; times are the server's."""

    def __init__(self) -> None:
        self._former: OrderedDict[tuple[Kind, Key], Former] = OrderedDict()
        # How many replacements in a row led to a child, by its uid.
        self._replacements: OrderedDict[str, int] = OrderedDict()
        # How many times in a row a child got a template in place, and when it was last, by the
        # child's uid and the template; by the uid and an empty text, the same for any template.
        self._applied: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def wait(self, child: Child, plan: Plan, now: float) -> float:
        """Return the seconds until the child may be replaced as planned."""
        return _wait(child.created, self._counted(child, plan), now)

    def replaced(self, child: Child) -> int:
        """Return how many replacements in a row led to this child."""
        return max(child.replaced, self._replacements.get(child.uid, 0))

    def _counted(self, child: Child, plan: Plan) -> int:
        replaced = self.replaced(child)
        return min(replaced, EDITED) if plan.edited else replaced

    def wait_in_place(self, child: Child, wanted: Wanted, plan: Plan, now: float) -> float:
        """Return the seconds until a child may be changed in place as planned.

        Others may change it back whenever the operator has changed it.
        """
        count, at = self._applied.get((child.uid, wanted.template), (0, now))
        same = _wait(at, min(count, EDITED) if plan.edited else count, now)
        # A plan may differ each time that it is made, for example because it has the time.
        count, at = self._applied.get((child.uid, ""), (0, now))
        return max(same, _wait(at, min(count, FREE), now))

    def applied(self, child: Child, wanted: Wanted, now: float) -> None:
        """Record that a child was changed in place; what was refused does not count."""
        for key in ((child.uid, wanted.template), (child.uid, "")):
            count, at = self._applied.pop(key, (0, now))
            stayed = now - at > STAYED + 2 * pause(count)
            self._applied[key] = (1 if stayed else min(count + 1, MAX_COUNT), now)
        while len(self._applied) > REMEMBERED:
            self._applied.popitem(last=False)

    def lost(self, kind: Kind, child: Child, now: float) -> None:
        """Record that a child is gone, unless the operator deleted it."""
        former = self._former.get((kind, child.key))
        if former is None or former.uid != child.uid:
            # The label: admission may write another owner, whose child is collected at once.
            self.deleted(kind, child, now, child.created_for or child.controller_uid, gone(kind))

    def deleted(self, kind: Kind, child: Child, now: float, owner: str, cause: Plan) -> None:
        """Record that the operator deleted a child, for which owner, and why."""
        replaced = self._counted(child, cause)
        stayed = now - child.created > STAYED + 2 * pause(replaced)
        count = 0 if stayed else min(replaced + 1, MAX_COUNT)
        wait = _wait(child.created, replaced, now)
        former = Former(child.uid, owner, cause, count, now + wait if wait else 0.0)
        self._former[kind, child.key] = former
        if len(self._former) > REMEMBERED:
            self._former.popitem(last=False)

    def former(self, wanted: Wanted, owner: str) -> Former | None:
        """Return an owner's former child that the wanted one follows, or None."""
        former = self._former.get((wanted.kind, wanted.key))
        return former if former is not None and former.owner == owner else None

    def created(self, kind: Kind, child: Child) -> None:
        """Record that a child exists, whichever replica created it; forget the former one.

        That of another owner, such as a former object of the same name, counts for nothing.
        """
        former = self._former.get((kind, child.key))
        if former is None or former.uid == child.uid:  # a late event of the former
            return
        del self._former[kind, child.key]
        if former.count and former.owner == (child.created_for or child.controller_uid):
            self._replacements[child.uid] = former.count
            if len(self._replacements) > REMEMBERED:
                self._replacements.popitem(last=False)
