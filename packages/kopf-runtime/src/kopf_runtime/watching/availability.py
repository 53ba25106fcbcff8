"""Says of a kind in a namespace whether its objects are known, and what may be done meanwhile.

Each `reflector` has one `Availability`, which it replaces by what its lists and watches show; the
others ask `may`.
"""

from enum import Enum, auto
from typing import NamedTuple

from kopf_runtime.watching.listing import LOST

#: Seconds for which a path may fail before it counts as missing: one answer may be wrong.
PATIENCE = 15.0


class State(Enum):
    """What is known of the objects of a kind."""

    LISTING = auto()  # nothing yet: the first attempt has not ended
    RELISTING = auto()  # all that there was, but it is listed again
    SYNCED = auto()  # all
    FAILING = auto()  # nothing, which may pass
    MISSING = auto()  # nothing, for longer than `PATIENCE`: it is forbidden or broken
    UNKNOWN = auto()  # there are none: for as long, the API server has not known the kind
    ABSENT = auto()  # the same of a kind that need not be there


class Use(Enum):
    """What is done with the objects of a kind, or with what depends on them."""

    SERVE = auto()  # work on them, as they are the controller's own
    BESIDE = auto()  # work on objects that may have some of them, or do without
    CHANGE = auto()  # create, change and delete them
    SEE = auto()  # take those that are cached for all that there are
    SEE_AT_END = auto()  # the same for an object that is being deleted


_GONE = {State.UNKNOWN, State.ABSENT}
_MAY = {
    Use.SERVE: {State.SYNCED},
    Use.BESIDE: {State.SYNCED, State.MISSING, *_GONE},
    Use.CHANGE: {State.SYNCED, State.LISTING, State.RELISTING, State.FAILING},
    Use.SEE: {State.SYNCED, State.ABSENT},
    Use.SEE_AT_END: {State.SYNCED, *_GONE},
}


class Availability(NamedTuple):
    """The state of a kind in a namespace, with the reason if it is not served."""

    state: State = State.LISTING
    why: str = ""
    #: The HTTP status of the reason.
    status: int = 0

    @property
    def is_waited_for(self) -> bool:
        """Whether readiness and metrics tell that it is not served."""
        return self.state not in (State.SYNCED, State.RELISTING, State.ABSENT)


def may(use: Use, state: State, *, again: bool = False) -> bool:
    """Return whether something may be done; with `again`, also while all is only listed again."""
    if state is State.SYNCED:  # an enum's hash costs more than all else here
        return True
    return state in _MAY[use] or (again and state is State.RELISTING)


class Failures(NamedTuple):
    """Since when each request has failed, been refused, been answered by 404; 0 if not."""

    since: float = 0.0
    refused_since: float = 0.0
    unknown_since: float = 0.0

    def then(self, status: int, now: float) -> "Failures":
        """Return what they are after one more failure."""
        return Failures(
            self.since or now,
            (self.refused_since or now) if status in LOST else 0.0,
            (self.unknown_since or now) if status == 404 else 0.0,
        )

    def state(self, now: float, *, synced: bool, optional: bool, known: bool) -> State:
        """Return the state that they lead to from one that is `synced`, or is not.

        A cache stays in use while only its watch fails, unless it has been refused for a while.
        """
        unknown = bool(self.unknown_since) and _late(self.unknown_since, now)
        if self.unknown_since and optional and (unknown or not known):
            return State.ABSENT
        if unknown:
            return State.UNKNOWN
        if synced and not (self.refused_since and _late(self.refused_since, now)):
            return State.SYNCED
        return State.MISSING if _late(self.since, now) else State.FAILING

    def left(self, now: float) -> float:
        """Return the seconds until a next failure may change the state."""
        ends = (began + PATIENCE for began in self if began)
        return min((end - now for end in ends if end > now), default=float("inf"))


def _late(began: float, now: float) -> bool:
    return now - began >= PATIENCE
