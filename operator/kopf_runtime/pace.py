"""Bounds how often a child is replaced: what ends at once must not come back as fast as it can.

A few replacements are free; from then on each waits twice as long as the one before. The count is
kept in an annotation of the child, so it survives the operator; a child that stayed for a while
begins again at none. (A DaemonSet keeps such a back-off for Pods that fail.)
"""

from collections import OrderedDict

from kopf_runtime.kinds import Key, Kind
from kopf_runtime.records import Child

#: Replacements in a row without a pause, and the longest pause in seconds.
FREE, LONGEST = 5, 300.0
#: Seconds that a child must stay, beyond its pause, for the count to begin again.
STAYED = 60.0
#: Lost children that are remembered until the next one is made.
REMEMBERED = 4096


def pause(replaced: int) -> float:
    """Return the seconds from the making of a child until it may be replaced."""
    return 0.0 if replaced < FREE else min(LONGEST, 2.0 ** min(replaced - FREE, 16))


class Pace:
    """Remembers children that are gone until the next ones are made; times are the server's."""

    def __init__(self) -> None:
        self._gone: OrderedDict[tuple[Kind, Key], tuple[int, float]] = OrderedDict()

    def wait(self, child: Child, now: float) -> float:
        """Return the seconds until the child may be replaced."""
        return max(0.0, child.created + pause(child.replaced) - now)

    def lost(self, kind: Kind, child: Child, now: float) -> None:
        """Take in that a child is gone."""
        age = now - child.created
        stayed = age > STAYED + 2 * pause(child.replaced)
        count = 0 if stayed else min(child.replaced + 1, 99)
        self._gone[kind, child.key] = count, child.created + pause(child.replaced)
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def knows(self, kind: Kind, key: Key) -> bool:
        """Tell whether a child of that name was there before."""
        return (kind, key) in self._gone

    def wait_to_make(self, kind: Kind, key: Key, now: float) -> float:
        """Return the seconds until a child may be made."""
        return max(0.0, self._gone.get((kind, key), (0, 0.0))[1] - now)

    def made(self, kind: Kind, key: Key) -> None:
        """Take in that a child was made."""
        self._gone.pop((kind, key), None)

    def count(self, kind: Kind, key: Key) -> int:
        """Return how many replacements in a row the next child is."""
        return self._gone.get((kind, key), (0, 0.0))[0]
