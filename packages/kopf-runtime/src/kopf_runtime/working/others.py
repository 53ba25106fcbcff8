"""Other installations of the operator over the same objects, such as two Helm releases.

Each child has an annotation with the installation that has written it last. If their settings
differ, each would replace what the other one has made, without an end. So one steps back: that
whose name is greater, once it has changed the same child for the second time in vain. It
reconciles that object again once the other one does not follow an edit, after a restart, and now
and then, as anybody who may change a child may write the annotation.
"""

import logging
import math
import time
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.records import Child, Owner, Wanted
from kopf_runtime.reporting.events import Deps, about
from kopf_runtime.reporting.troubles import DONE, Outcome, left_to
from kopf_runtime.watching.source import Source
from kopf_runtime.working.drift import remember

logger = logging.getLogger(__name__)

#: How often an installation changes what another one has made of an object.
TAKEOVERS = 2
#: Seconds that the other one has to follow an edit of an object that is left to it, or to replace
#: a child.
FOLLOWS = 60.0
#: Seconds until an object that was left is tried again: twice as long each time, up to a day.
AGAIN, LONGEST = 600.0, 86_400.0


#: A child that another installation had written: its owner's uid, that one's name, kind and key.
_Taken = tuple[str, str, Kind, Key]


class Part(Struct, frozen=True):
    """What an installation adds to an object of others', which counts as a child of it."""

    kind: Kind
    key: Key
    template: str
    installation: str = ""


class _Left(Struct, frozen=True):
    """An object that is left to another installation."""

    other: str
    #: Whether it is what both add to the object, of which no child tells.
    part: bool
    #: The generation of the object, and since when it has that, in seconds of the server's time.
    generation: int
    at: float
    #: When it is tried again, and since when the other one has no child of it.
    until: float
    gone: float = math.inf


class Others:
    """The other installations that have written children of one kind of objects."""

    def __init__(
        self, deps: Deps, kind: Kind, children: Mapping[Kind, Source[Child]], installation: str
    ) -> None:
        self._deps, self._kind, self._children = deps, kind, children
        self._name = installation
        #: When this replica began to lead; children that are older are a former installation's.
        self._began = math.inf
        #: How often we have changed a child that another one had made.
        self._taken: dict[_Taken, int] = {}
        #: The objects that are left to another one, and how often each was, by uid.
        self._left: dict[str, _Left] = {}
        self._times: dict[str, int] = {}

    def begin(self) -> None:
        """Note that this replica begins to lead; another one may have decided otherwise."""
        self._began = self._deps.client.now() + 1.0  # the API server tells whole seconds
        self._taken.clear()
        self._left.clear()
        self._times.clear()

    def saw(self, child: Child, former: Child | None) -> None:
        """Take note of a child that has just been created or changed, perhaps by another one."""
        if not self._is_of_another(child):
            return
        known = former is not None and former.uid == child.uid
        changed = known and former is not None and former.installation != child.installation
        if changed or child.created > self._began:
            self._see(child)

    def contends(
        self, owner: Owner, child: Child | Part, wanted: Wanted | Part | None = None
    ) -> Outcome:
        """Return what stops a change to a child that another installation has written.

        One that is not wanted stays after two deletions, whatever the names are: what is created
        again does not say who has deleted it. An Event says so; in the status, which both write,
        the other one would say the contrary.
        """
        if not self._is_of_another(child) or (wanted and wanted.template == child.template):
            return DONE
        vain = self._taken.get(_taken(owner, child), 0) >= TAKEOVERS
        if wanted is not None and vain and child.installation < self._name:
            return self._leave(owner, child)
        return left_to(child.installation, FOLLOWS) if wanted is None and vain else DONE

    def taken_over(
        self, owner: Owner, child: Child | Part, wanted: Wanted | Part | None = None
    ) -> None:
        """Count that a child, which may have been another one's, was changed or deleted."""
        if not self._is_of_another(child) or (wanted and wanted.template == child.template):
            return
        key = _taken(owner, child)
        remember(self._taken, key, count := self._taken.get(key, 0) + 1)
        if count >= TAKEOVERS:  # the other one has changed it back, so it is at work
            self._see(child)
            if wanted is None:
                self._record(owner, child, "deletes it for the last time")
            elif self._name < child.installation:
                self._record(owner, child, "changes that, and the other one has to step back")

    def left(self, owner: Owner) -> Outcome:
        """Return what stops the reconcile of an object that is left to another installation."""
        if (left := self._left.get(owner.uid)) is None:
            return DONE
        now = self._deps.client.now()
        theirs = [
            child.generation
            for source in self._children.values()
            for child in source.owned(owner)
            if child.installation == left.other
        ]
        if owner.generation != left.generation:
            left = replace(left, generation=owner.generation, at=now)
        left = replace(left, gone=math.inf if theirs else min(left.gone, now))
        self._left[owner.uid] = left
        wait = max(left.at, -math.inf if theirs else left.gone) + FOLLOWS - now
        follows = left.part or owner.generation in theirs or wait > 0
        if follows and now < left.until:
            return left_to(left.other, max(1.0, min(wait if wait > 0 else FOLLOWS, FOLLOWS)))
        del self._left[owner.uid]
        for key in [key for key in self._taken if key[:2] == (owner.uid, left.other)]:
            self._taken[key] = TAKEOVERS - 1
        return DONE

    def _is_of_another(self, child: Child | Part) -> bool:
        return child.installation not in ("", self._name) and bool(self._name)

    def _leave(self, owner: Owner, child: Child | Part) -> Outcome:
        """Leave an object to another installation, and say so."""
        now, other = self._deps.client.now(), child.installation
        remember(self._times, owner.uid, times := self._times.get(owner.uid, 0) + 1)
        until = now + min(AGAIN * 2.0 ** (times - 1), LONGEST)
        remember(
            self._left,
            owner.uid,
            _Left(other, isinstance(child, Part), owner.generation, now, until),
        )
        self._see(child)
        self._record(owner, child, f"leaves this {self._kind.kind} to it")
        return left_to(other, FOLLOWS)

    def _see(self, child: Child | Part) -> None:
        if self._deps.metrics.saw_other(child.installation, time.monotonic()):
            logger.warning(
                "Another installation of this operator, %s, is at work on the same objects: it "
                "has written %s %s. Uninstall one of them, or let them watch different namespaces",
                child.installation,
                child.kind.kind,
                child.key[1],
            )

    def _record(self, owner: Owner, child: Child | Part, does: str) -> None:
        text = (
            f"Another installation of this operator, {child.installation}, has changed "
            f"{child.kind.kind} {child.key[1]} back; this one, {self._name}, {does}. Uninstall one "
            "of them, or let them watch different namespaces."
        )
        self._deps.recorder.warning(about(self._kind, owner), "AnotherInstallation", text)


def _taken(owner: Owner, child: Child | Part) -> _Taken:
    return owner.uid, child.installation, child.kind, child.key
