"""Decides what is done for an object: pure functions of what is observed.

`reconcile` has each decision carried out by `act`; `--dry-run` and a paused object only show it. A
decision depends on no history, so it is right no matter which events were missed, repeated or
interrupted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.records import Child, Owned, Owner, Plan, Step, Update, Wanted
from kopf_runtime.reporting import troubles
from kopf_runtime.reporting.status import why_unready
from kopf_runtime.reporting.status_writer import SETTLE
from kopf_runtime.reporting.troubles import DONE, Outcome

KEEP, WAIT, CONFLICT, ADMISSION = (
    Plan(step) for step in (Step.KEEP, Step.WAIT, Step.CONFLICT, Step.ADMISSION)
)
#: The steps that create or change a child.
WRITING = (Step.CREATE, Step.APPLY, Step.DELETE)
_VERBS = {
    Step.CREATE: "create",
    Step.APPLY: "change",
    Step.DELETE: "replace",
    Step.WAIT: "wait for the former",
    Step.CONFLICT: "wait for the other owner of",
}


class Action(Struct, frozen=True):
    """What is done next for a child, or reported of it."""

    plan: Plan
    wanted: Wanted | None = None
    child: Child | None = None
    #: Why it is not done now.
    stop: Outcome = DONE
    #: Whether another child has to be ready first.
    held_back: bool = False
    #: What is done for the object itself.
    owner_step: str = ""

    @property
    def waits(self) -> bool:
        """Whether nothing is to be done for the child now, and a diff would say nothing."""
        return self.held_back or self.plan.step in (Step.WAIT, Step.CONFLICT)

    @property
    def text(self) -> str:
        """What would be done, for people; empty for nothing."""
        if self.owner_step:
            return self.owner_step
        if self.wanted is None and self.child is not None:
            what = f"delete {self.child.kind.kind} {self.child.key[1]}"
        elif self.held_back:
            return f"hold back {self.wanted} ({self.stop.why.rstrip('.')})"
        elif (verb := _VERBS.get(self.plan.step)) is None:
            return ""
        else:
            what = f"{verb} {self.wanted}"
        return f"{what} ({self.plan.why})" if self.plan.why else what


# --- one child that is wanted -----------------------------------------------------------------


class Seen(Struct, frozen=True, kw_only=True):
    """All on which the decision about a child that is wanted depends."""

    owner: Owner
    wanted: Wanted
    owned: Owned
    #: The object of its name, as far as is known.
    child: Child | None = None
    #: Another child that has to be ready first, and why it is not.
    first: tuple[Wanted, str] | None = None
    #: Whether somebody has altered a field of the manifest that the child was made from.
    altered: bool = False
    #: Whether the child already lacked some of our marks when it was created.
    as_admitted: bool = False
    #: Returns whether an object of the owner's kind has a uid.
    owner_exists: Callable[[str], bool] = lambda _: False
    #: Whether children that exist stay as they are, except for an edit of their owner's.
    held: bool = False
    #: Whether the API server has said that the name is taken.
    taken: bool = False
    #: Returns the seconds until a step may be taken.
    pause: Callable[[Plan], float] = lambda _: 0.0
    #: Why the next child is created, if it follows a former one.
    cause: Plan | None = None
    #: The commands that make a stranger's object a child.
    hand_over: str = ""
    #: What stops a change to a child that another installation of the operator has written.
    contended: Callable[[], Outcome] = lambda: DONE
    #: The API server's time, in seconds of Unix time.
    now: float = 0.0

    @property
    def present(self) -> Child:
        """The object of its name, which has to be there."""
        assert self.child is not None
        return self.child


def decide(seen: Seen, word: str) -> Action:
    """Return what to do about a child that is wanted; `word` is the kind of its owner."""
    wanted, child = seen.wanted, seen.child
    step = Plan(Step.CREATE) if child is None else plan(seen, word)
    if child is not None and seen.held:
        another = child.template != wanted.template and not step.edited
        step = KEEP if another and step.step in WRITING else step
    if seen.first is not None and step.step in WRITING:
        return Action(step, wanted, child, troubles.waiting(wanted, *seen.first), held_back=True)
    return Action(step, wanted, child, _stop(seen, step, word))


def _stop(seen: Seen, step: Plan, word: str) -> Outcome:
    """Return what stops a step now."""
    wanted, child = seen.wanted, seen.child
    if child is None:
        if seen.taken:
            text = f"The API server says that {wanted} exists, but does not find it."
            return troubles.contradicted("AlreadyExists", text)
        step = seen.cause or step
    elif step.step is Step.WAIT:
        return waits_for(child, seen.owner, word, seen.now)
    elif step.step is Step.CONFLICT:
        return troubles.conflict(wanted, word, seen.hand_over)
    elif step.step is Step.ADMISSION:
        return admission(seen.owner, wanted, child, seen.owned)
    elif step.step in WRITING and (contended := seen.contended()):
        return contended
    seconds = seen.pause(step) if step.step in WRITING else 0.0
    return troubles.back_off(wanted, step, seconds) if seconds > 0 else DONE


def waits_for(child: Child, owner: Owner, word: str, now: float) -> Outcome:
    """Return why the next one waits for a child that is being deleted; a watch reports its end."""
    if child.controller_uid != owner.uid:
        return troubles.former_left(word, child, now)
    if child.watched:
        return DONE
    kind = child.kind
    return troubles.terminating(kind, f"The former {kind.kind} is about to end.", SETTLE)


def admission(owner: Owner, wanted: Wanted, child: Child, owned: Owned) -> Outcome:
    """Return what stops a child from which admission has removed marks."""
    lost = stripped(owner, child)
    return troubles.changed_by_admission(wanted, lost, owned.update) if lost else DONE


def plan(seen: Seen, word: str) -> Plan:
    """Return the next step for a child that is wanted, given the existing object of its name."""
    owner, wanted, owned, altered = seen.owner, seen.wanted, seen.owned, seen.altered
    child = seen.present
    in_place = owned.update is not Update.RECREATE
    as_wanted = in_place or child.template in ("", wanted.template)
    if seen.as_admitted and as_wanted and not child.deleting and stripped(owner, child):
        return _admitted(in_place=in_place)
    # What is changed in place may hold data: whatever happened to its marks, it is never deleted.
    change = Step.APPLY if in_place else Step.DELETE
    if child.controller_uid != owner.uid:
        return _of_another(owner, wanted, child, change, seen.owner_exists)
    if child.deleting:
        return WAIT
    if in_place and (why := _lost(owner, wanted, child, owned)):
        edited = 0 < child.generation < owner.generation
        return Plan(change, "Healed", why, edited=edited, verify=True)
    if owned.update is Update.CREATE:
        return KEEP
    if ended := owned.finished(child.view):
        return Plan(Step.DELETE, "Healed", f"its {wanted.kind.kind} had ended ({ended})")
    if child.template != wanted.template:
        return _of_another_template(owner, child, word, change)
    if child.unlabelled and not altered:
        # A label is gone, but the operator still owns it, so no request of somebody's removed it.
        return _admitted(in_place=in_place)
    if altered:
        by = f" by {child.editors}" if child.editors else ""
        return Plan(change, "Healed", f"its {wanted.kind.kind} was altered{by}")
    return KEEP


def _lost(owner: Owner, wanted: Wanted, child: Child, owned: Owned) -> str:
    """Return why it is not certain that a child is its owner's, whatever its other fields are."""
    if wanted.outlives and child.parent != owner.key[1]:
        return "it had lost its owner's name"
    if child.retained is not wanted.outlives:
        return "its owner reference was to go" if wanted.outlives else "it had no owner reference"
    if child.outdated:
        return "its owner reference named another version of the API"
    lost = owned.update is Update.CREATE and stripped(owner, child)
    return "it had lost its marks" if lost else ""


def _of_another_template(owner: Owner, child: Child, word: str, change: Step) -> Plan:
    """Return the step for a child that was created from another manifest than is wanted."""
    if child.generation > owner.generation:
        why = f"its {child.kind.kind}'s generation was altered"
        return Plan(change, "Healed", why, verify=True)
    if 0 < child.generation < owner.generation:
        return Plan(change, "Replaced", f"the {word} was edited", edited=True)
    return Plan(change, "Replaced", f"its {child.kind.kind}'s template changed", verify=True)


def _admitted(*, in_place: bool) -> Plan:
    """Return the step for a child from which admission removed marks."""
    # An apply in place is only one request, and shows whether admission accepts it by now.
    return Plan(Step.APPLY, "Healed", "admission had changed it") if in_place else ADMISSION


def _of_another(
    owner: Owner, wanted: Wanted, child: Child, change: Step, owner_exists: Callable[[str], bool]
) -> Plan:
    """Return the step for an object of the child's name that the owner does not control.

    `change` is what makes it right if it was created for the owner or for no owner that exists.
    """
    named = child.parent == owner.key[1]
    retained = child.retained or (wanted.outlives and child.controller_uid == child.created_for)
    if child.controller_uid and not retained:
        # It is somebody else's, or a deleted object's: only one at a time has the owner's name.
        return WAIT if named else CONFLICT
    if child.deleting and child.created_for:
        return WAIT
    if retained and child.template and not child.created_for and named:
        return Plan(change, "Healed", "it had lost its owner's uid", verify=True)
    if child.created_for == owner.uid and (child.template or named):
        why = "the operator had not made it" if retained else "its owner reference was taken away"
        return Plan(change, "Healed", why, verify=True)
    if not (child.created_for and child.template):
        return CONFLICT
    if owner_exists(child.created_for) or ((wanted.outlives or child.parent) and not named):
        return CONFLICT  # the data of an object of another name are nobody else's
    # Restored from a backup, or orphaned by a deletion that did not cascade: the garbage collector
    # does not delete it, and its owner does not come back.
    return Plan(change, "Healed", "it was left behind by a former owner", verify=True)


def stripped(owner: Owner, child: Child) -> list[str]:
    """Return the marks that a child lacks, by which the operator recognizes it."""
    reference = [] if child.controller_uid == owner.uid else ["the owner reference"]
    # Without it, each child would look wrong, and its successor, too.
    template = [] if child.template else ["the annotation template-hash"]
    return [*(f"the label {label}" for label in child.unlabelled), *template, *reference]


# --- what is not wanted any more --------------------------------------------------------------


class ObservedChildren(Struct, frozen=True, kw_only=True):
    """An object with its plan and all of its children."""

    owner: Owner
    word: str
    owned: Mapping[Kind, Owned]
    #: The wanted children that can be there, in the order in which they are made.
    wanted: tuple[Wanted, ...]
    #: The objects of their names, as cached.
    named: Mapping[tuple[Kind, Key], Child | None]
    #: The children that exist.
    children: Mapping[Kind, list[Child]]
    #: Why a kind cannot be served in a namespace.
    missing: Mapping[tuple[Kind, str], str]
    #: Where an optional kind is not there.
    absent: Collection[tuple[Kind, str]]

    def can_be_served(self, wanted: Wanted) -> bool:
        """Return whether a child can be made or changed."""
        return not self.missing[wanted.kind, wanted.key[0]]

    @property
    def surplus(self) -> list[Child]:
        """The children that are to go: no longer wanted, and certainly the owner's."""
        return [child for child in self._unwanted(stays=False) if self._is_own(child)]

    @property
    def strays(self) -> list[Child]:
        """What has marks of the owner, and may be a copy, or another object's: it stays."""
        unwanted = (*self._unwanted(stays=False), *self._unwanted(stays=True))
        return [child for child in unwanted if not self._is_own(child)]

    @property
    def kept(self) -> list[Child]:
        """What is no longer wanted, and stays because nobody has said what becomes of it."""
        undeclared = (c for c in self._unwanted(stays=True) if self.owned[c.kind].prune is None)
        return [child for child in undeclared if self._is_own(child)]

    def _unwanted(self, *, stays: bool) -> list[Child]:
        keys = {(child.kind, child.key) for child in self.owner.wanted}
        return [
            child
            for kind, owned in self.owned.items()
            for child in (self.children[kind] if owned.keeps_surplus is stays else ())
            if (kind, child.key) not in keys and not child.deleting
        ]

    def _is_own(self, child: Child) -> bool:
        owner = self.owner
        return child.proven and (child.controller_uid, child.parent) == (owner.uid, owner.key[1])

    def why_unready(self, first: Wanted) -> str:
        """Return why a child is not ready for those that come after it."""
        owned, child = self.owned[first.kind], self.named[first.kind, first.key]
        if child is None or child.controller_uid != self.owner.uid:
            return "it does not exist yet"
        if owned.update is not Update.CREATE and child.template != first.template:
            return "it is not up to date yet"
        return why_unready(child)

    def why_missing(self, children: Iterable[tuple[Kind, Key]]) -> Outcome:
        """Return what stops a child whose kind cannot be served."""
        for kind, (namespace, name) in children:
            if why := self.missing[kind, namespace]:
                if namespace != self.owner.key[0]:
                    return troubles.unserved(kind, name, namespace, why)
                return troubles.missing(kind, why)
        return DONE

    def removals(self) -> tuple[list[Child], Outcome]:
        """Return the children to delete because they are not wanted any more, and what stops that.

        They go in the order of `owns`; `after` orders what is created alone.
        What is wanted may need some of them until it is ready: a rollout that goes on needs the
        ConfigMap of the Pods that it has not replaced yet. Others that cannot be seen may need any.
        """
        former = self.surplus
        for namespace in {child.key[0] for child in former}:
            for kind in self.owned:
                missing = self.missing[kind, namespace]
                if missing and (kind, namespace) not in self.absent:
                    return [], troubles.missing(kind, missing)
        if any(self.owned[child.kind].prune is None for child in former) and any(
            map(self.why_unready, self.wanted)
        ):
            former = [c for c in former if self.owned[c.kind].prune is not None]
        return former, DONE

    def is_settled(self) -> bool:
        """Return whether no child of a former plan is left that is to change."""
        wanted = {(child.kind, child.key): child.template for child in self.owner.wanted}
        for kind, children in self.children.items():
            once = self.owned[kind].update is Update.CREATE
            for child in children:
                template = wanted.get((kind, child.key))
                if child.deleting or (template and not once and child.template != template):
                    return False
        return not self.surplus
