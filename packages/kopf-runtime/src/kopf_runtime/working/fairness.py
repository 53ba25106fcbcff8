"""Who is next: the order in which the work queue reconciles what waits, and how many at once.

- Namespaces take turns, so a thousand keys of one do not delay the only key of another. An object
  without a namespace counts as one of its own.
- What has changed goes before what a list or a resync brings: a new object does not wait for a
  hundred thousand old ones. Every eighth turn is theirs all the same. What follows from a reconcile
  of a listed key, such as that its child is ready, goes behind the other listed keys if the caller
  says so: each object of a backlog has its child before the first one has its second status.
- A reconcile that takes longer than a second no longer occupies a worker, as long as there are not
  too many of them. It counts against its namespace, whose number of simultaneous reconciles is then
  limited for a while. So a namespace whose webhook hangs does not slow down the others. If it
  waits for an API outside the cluster, it counts alone: one that hangs for a few objects does not
  slow down the others of their namespace.
- As in the API server's priority and fairness, idle seats are lent: while nothing else waits, slow
  namespaces may have as many slow reconciles as there are workers. When the API server is slow for
  all, the limit would delay them for the sake of nobody. Who borrows occupies no worker either.

Adding a key and starting one cost the same however many wait.
"""

import asyncio
from collections import Counter, OrderedDict

import msgspec

from kopf_runtime.declaring.kinds import Key

#: Seconds after which a reconcile is slow, and seconds for which its namespace is then slow.
SLOW, SLOW_FOR = 1.0, 30.0
#: Simultaneous slow reconciles: per namespace, if others wait; in all per worker, and outside.
SLOW_EACH, SLOW_PER_WORKER, OUTSIDE_PER_WORKER = 4, 4, 32
#: Keys of a namespace that may be slow by themselves; the next one slows down the namespace.
SLOW_ALONE = 16
#: One turn of so many is of what was listed, even if there is always something that has changed.
_LISTED_TURN = 8


class Item(msgspec.Struct, eq=False):
    """What the queue knows of a key that waits, is reconciled, or is due later."""

    key: Key
    #: When it was queued, while it waits for a worker.
    added: float | None = None
    #: When what may be slow of its reconcile began, while it is reconciled.
    began: float | None = None
    #: When its reconcile began its last step.
    step: float = 0.0
    #: Whether its reconcile waits for an API outside the cluster.
    outside: bool = False
    #: Whether it was added during its reconcile: True if it was only listed, False if it changed.
    again: bool | None = None
    timer: asyncio.TimerHandle | None = None
    #: Failures in a row, and until when a Retry-After holds the key.
    failures: int = 0
    not_before: float = 0.0


class Turns(OrderedDict[str, OrderedDict[Key, None]]):
    """Waiting keys by namespace: the namespaces take turns, each with its oldest key first."""

    def add(self, key: Key) -> None:
        """Add a key behind the others of its namespace; one that is there keeps its place."""
        self.setdefault(_lane(key), OrderedDict())[key] = None

    def discard(self, key: Key) -> bool:
        """Remove a key; return whether it was there."""
        keys = self.get(lane := _lane(key))
        if keys is None or key not in keys:
            return False
        del keys[key]
        if not keys:
            del self[lane]
        return True

    def next(self) -> Key:
        """Remove the key whose turn it is."""
        lane, keys = self.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self[lane] = keys  # at the end: the other namespaces are first now
        return key

    def move(self, lane: str, to: "Turns") -> None:
        """Move all keys of a namespace elsewhere, behind the keys that wait there already.

        The cost grows with the smaller of the two groups.
        """
        if (keys := self.pop(lane, None)) is None:
            return
        first = to.get(lane) or OrderedDict[Key, None]()
        if len(first) > len(keys):
            first.update(keys)
            return
        for key in reversed(first):
            keys[key] = None
            keys.move_to_end(key, last=False)
        to[lane] = keys


class Fairness:
    """Decides which of the waiting keys is reconciled next, and whether one more may be."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.running: dict[Key, Item] = {}
        self._changed, self._listed = Turns(), Turns()  # what waits for a worker
        self._since_listed = 0  # turns of what has changed since one of what was listed
        self._begun: set[Key] = set()  # reconciled as listed, until no listed key waits
        self._held = Turns()  # what waits in slow namespaces,
        self._full = Turns()  # and in those that have all the slow reconciles that they may have
        self._slow: dict[Key, None] = {}  # running keys that no longer occupy a worker
        self._slow_in: Counter[str] = Counter()
        self._slow_until: dict[str | Key, float] = {}  # until when a namespace, or a key, is slow

    def began_listed(self, key: Key) -> bool:
        """Return whether a key was begun because of a list of which others still wait."""
        return key in self._begun

    def add(self, key: Key, *, listed: bool) -> None:
        """Let a key wait for its turn."""
        self._turns_of(key, listed=listed).add(key)

    def prefer(self, key: Key) -> None:
        """Let a waiting key go before what was only listed."""
        if self._turns_of(key) is self._changed:
            self._listed.discard(key)
            self._changed.add(key)  # no news if it was there before

    def next(self) -> Key | None:
        """Remove the key whose turn it is; return None if no other reconcile may begin."""
        if not self._listed:
            self._begun.clear()
        if len(self.running) - len(self._slow) < self._workers:
            if self._changed and not (self._listed and self._since_listed >= _LISTED_TURN - 1):
                self._since_listed += 1
                self._begun.discard(key := self._changed.next())
                return key
            if self._listed:
                self._since_listed = 0
                self._begun.add(key := self._listed.next())
                return key
        if self._held and self._may_be_slow():
            self._is_slow(key := self._held.next())
            return key
        others_wait = self._changed or self._listed or self._held
        if self._full and not others_wait and len(self._slow) < self._workers:
            self._is_slow(key := self._full.next())
            return key
        return None

    def begin(self, item: Item, now: float) -> None:
        """Count a reconcile as running."""
        item.began = item.step = now
        self.running[item.key] = item

    def end(self, item: Item) -> None:
        """Count a reconcile as ended."""
        item.began = None
        del self.running[item.key]
        if item.key in self._slow:
            del self._slow[item.key]
            lane = _lane(item.key)
            self._slow_in[lane] -= 1
            if self._slow_in[lane] < SLOW_EACH:
                self._full.move(lane, self._held)
            if not self._slow_in[lane]:
                del self._slow_in[lane]

    def look(self, now: float, late: float) -> None:
        """Find what has been slow for too long, and what no longer is.

        No reconcile is blamed for what this process itself was late, as by an author's function.
        """
        alone = Counter(_lane(slow) for slow in self._slow_until if not isinstance(slow, str))
        for key, item in self.running.items():
            item.began = min(now, (item.began or now) + max(0.0, late))
            if now - item.began > SLOW:
                lane, was_slow = _lane(key), key in self._slow_until
                if item.outside and (was_slow or alone[lane] < SLOW_ALONE):
                    self._slow_until[key] = now + SLOW_FOR
                    alone[lane] += not was_slow
                else:
                    self._slow_until[lane] = now + SLOW_FOR
                    for place in (self._changed, self._listed):
                        place.move(lane, self._turns_of(key))
                if key not in self._slow and self._may_be_slow():
                    self._is_slow(key)
        self._forget_slow(now)

    def _turns_of(self, key: Key, *, listed: bool = False) -> Turns:
        """Return where a key waits."""
        if (lane := _lane(key)) in self._slow_until or key in self._slow_until:
            return self._full if self._slow_in[lane] >= SLOW_EACH else self._held
        return self._listed if listed else self._changed

    def _may_be_slow(self) -> bool:
        """Return whether one more reconcile may go on without a worker."""
        outside = sum(self.running[key].outside for key in self._slow)
        return (
            len(self._slow) - outside < self._workers * SLOW_PER_WORKER
            and outside < self._workers * OUTSIDE_PER_WORKER
        )

    def _is_slow(self, key: Key) -> None:
        self._slow[key] = None
        self._slow_in[lane := _lane(key)] += 1
        if self._slow_in[lane] >= SLOW_EACH:
            self._held.move(lane, self._full)

    def _forget_slow(self, now: float) -> None:
        """Let what has been slow for long enough wait like the others."""
        before = list(self._slow_until.items())
        for slow, until in before:
            if until < now:
                del self._slow_until[slow]
                if isinstance(slow, str):
                    self._held.move(slow, self._changed)
                    self._full.move(slow, self._changed)
        for slow, _ in before:  # a key may be slow though its namespace is not
            if not isinstance(slow, str):
                place = self._turns_of(slow)
                for other in (self._changed, self._held, self._full):
                    if other is not place and other.discard(slow):
                        place.add(slow)


def _lane(key: Key) -> str:
    """Return what a key takes turns for: its namespace, or itself if it has none."""
    return key[0] or key[1]
