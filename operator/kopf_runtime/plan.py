"""Decides the next step for a child: pure functions of what is observed now.

`reconcile` calls `plan` for each child that is there and should be, and `surplus` for those that an
object should not have any more; `apply` does the step. Whatever was missed, repeated or interrupted
before, the next step is right.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from kopf_runtime.kinds import Kind
from kopf_runtime.records import Child, Owned, Primary, Update, Wanted


class Step(Enum):
    """The one next step for a child."""

    KEEP = auto()
    CREATE = auto()
    APPLY = auto()  # change it in place
    DELETE = auto()  # it is not what it should be: another follows once it is gone
    VERIFY = auto()  # it seems to be of a later generation than is known: ask, then decide
    WAIT = auto()  # it is on its way out
    CONFLICT = auto()  # it belongs to somebody else
    ADMISSION = auto()  # admission changed it when it was made: another would be no better


@dataclass(frozen=True, slots=True)
class Plan:
    """A step, and why it is taken; with a reason, an Event tells so of the child that follows."""

    step: Step
    reason: str = ""
    why: str = ""
    #: Whether the user asked for it: an edit of the object.
    edited: bool = False


KEEP, WAIT, CONFLICT, ADMISSION = (
    Plan(step) for step in (Step.KEEP, Step.WAIT, Step.CONFLICT, Step.ADMISSION)
)


def gone(kind: Kind) -> Plan:
    """Return the plan for a child that went by itself, or by somebody else's hand."""
    return Plan(Step.CREATE, "Healed", f"its {kind.kind} was gone")


def plan(
    primary: Primary, wanted: Wanted, child: Child, owned: Owned,
    lives: Callable[[str], bool], word: str, *, as_admitted: bool = False,
) -> Plan:  # fmt: skip
    """Decide the next step for a child that an object should have, given what has its name.

    `lives` tells whether an object of the primary's kind has this uid; `word` is that kind;
    `as_admitted` tells whether the child lacked some of our marks from the beginning.
    """
    in_place = owned.update is Update.APPLY
    as_wanted = in_place or child.template in ("", wanted.template)
    if as_admitted and as_wanted and not child.deleting and stripped(primary, child):
        # In place it costs no more than a request to see whether admission lets it pass by now.
        return Plan(Step.APPLY, "Healed", "admission had changed it") if in_place else ADMISSION
    if child.owner != primary.uid:
        return _of_another(primary, child, lives)
    if child.deleting:
        return WAIT
    if ended := owned.ended(child.view):
        return Plan(Step.DELETE, "Healed", f"its {wanted.kind.kind} had ended ({ended})")
    change = Step.APPLY if in_place else Step.DELETE
    if child.template != wanted.template:
        if child.generation > primary.generation:
            return Plan(Step.VERIFY, "Healed", f"its {wanted.kind.kind}'s generation was altered")
        if 0 < child.generation < primary.generation:
            return Plan(change, "Replaced", f"the {word} was edited", edited=True)
        return Plan(change, "Replaced", f"its {wanted.kind.kind}'s template changed")
    if child.altered or child.unlabelled:
        by = f" by {child.editors}" if child.editors else ""
        return Plan(change, "Healed", f"its {wanted.kind.kind} was altered{by}")
    return KEEP


def _of_another(primary: Primary, child: Child, lives: Callable[[str], bool]) -> Plan:
    """Decide about an object that has the child's name, and is not controlled by the primary."""
    if child.owner:  # somebody else's; only that of a former object of our name goes by itself
        return WAIT if child.parent == primary.key[1] and not lives(child.owner) else CONFLICT
    if child.deleting and child.made_for:
        return WAIT
    if not (child.made_for and child.template):
        return CONFLICT
    if child.made_for == primary.uid:
        return Plan(Step.DELETE, "Healed", "its owner reference was taken away")
    if lives(child.made_for):
        return CONFLICT
    # Restored from a backup, or left by a deletion that does not cascade: no garbage collector
    # takes it, and its owner does not come back.
    return Plan(Step.VERIFY, "Healed", "it was left behind by a former owner")


def stripped(primary: Primary, child: Child) -> list[str]:
    """Return what a child lacks of the marks by which the operator knows it."""
    owner = [] if child.owner == primary.uid else ["the owner reference"]
    return [*(f"the label {label}" for label in child.unlabelled), *owner]


def surplus(children: list[Child], wanted: tuple[Wanted, ...], owned: Owned) -> list[Child]:
    """Return the children of a kind that an object should not have any more."""
    keys = {one.key for one in wanted if one.kind == owned.kind}
    return [child for child in children if child.key not in keys and not child.deleting]
