"""Decides the next step for a child: pure functions of the observed state.

`reconcile` calls `plan` for each existing child that is wanted, and `surplus` for those that are no
longer wanted; `apply` carries the step out. The decision depends on no history, so it is right no
matter which events were missed, repeated or interrupted.
"""

from collections.abc import Callable

from msgspec.structs import replace

from kopf_runtime.declaring.records import Child, Fate, Owned, Owner, Plan, Step, Update, Wanted

KEEP, WAIT, CONFLICT, ADMISSION = (
    Plan(step) for step in (Step.KEEP, Step.WAIT, Step.CONFLICT, Step.ADMISSION)
)


def plan(
    owner: Owner,
    wanted: Wanted,
    child: Child,
    owned: Owned,
    lives: Callable[[str], bool],
    word: str,
    *,
    altered: bool = False,
    as_admitted: bool = False,
) -> Plan:
    """Return the next step for a wanted child, given the existing object of its name.

    `lives` returns whether an object of the owner's kind has a uid; `word` is that kind; `altered`
    says whether somebody has altered a field of the manifest that the child was made from;
    `as_admitted` says whether the child already lacked some of our marks when it was created.
    """
    in_place = owned.update is not Update.RECREATE
    as_wanted = in_place or child.template in ("", wanted.template)
    if as_admitted and as_wanted and not child.deleting and stripped(owner, child):
        return _admitted(in_place=in_place)
    # What is changed in place may hold data: whatever happened to its marks, it is never deleted.
    change = Step.APPLY if in_place else Step.DELETE
    if child.controller_uid != owner.uid:
        return _of_another(owner, wanted, child, lives, change)
    if child.deleting:
        return WAIT
    if in_place and (why := _lost(owner, wanted, child, owned)):
        edited = 0 < child.generation < owner.generation
        return Plan(change, "Healed", why, edited=edited, verify=True)
    if owned.update is Update.CREATE:
        return KEEP
    if ended := owned.ended(child.view):
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
    """Return why it cannot be told that a child is its owner's, whatever its other fields are."""
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
    owner: Owner, wanted: Wanted, child: Child, lives: Callable[[str], bool], change: Step
) -> Plan:
    """Return the step for an object of the child's name that the owner does not control.

    `change` is what makes it right if it was created for the owner or for nobody who lives.
    """
    named = child.parent == owner.key[1]
    retained = child.retained or (wanted.outlives and child.controller_uid == child.made_for)
    if child.controller_uid and not retained:
        # It is somebody else's, or a deleted object's: only one at a time has the owner's name.
        return WAIT if named else CONFLICT
    if child.deleting and child.made_for:
        return WAIT
    if retained and child.template and not child.made_for and named:
        return Plan(change, "Healed", "it had lost its owner's uid", verify=True)
    if child.made_for == owner.uid and (child.template or named):
        why = "the operator had not made it" if retained else "its owner reference was taken away"
        return Plan(change, "Healed", why, verify=True)
    if not (child.made_for and child.template):
        return CONFLICT
    if lives(child.made_for) or ((wanted.outlives or child.parent) and not named):
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


def surplus(owner: Owner, children: list[Child], owned: Owned) -> list[Child]:
    """Return the children of a kind that are to go: no longer wanted, and certainly the owner's."""
    return [child for child in _unwanted(owner, children, owned) if _is_own(owner, child)]


def strays(owner: Owner, children: list[Child], owned: Owned) -> list[Child]:
    """Return what has marks of the owner, and may be a copy, or another object's: it stays."""
    return [child for child in _unwanted(owner, children, owned) if not _is_own(owner, child)]


def kept(owner: Owner, children: list[Child], owned: Owned) -> list[Child]:
    """Return what is no longer wanted, and stays because nobody has said what becomes of it."""
    if owned.on_surplus is not None or not owned.keeps_surplus:
        return []
    those = _unwanted(owner, children, replace(owned, on_surplus=Fate.DELETE))
    return [child for child in those if _is_own(owner, child)]


def _unwanted(owner: Owner, children: list[Child], owned: Owned) -> list[Child]:
    if owned.keeps_surplus:
        return []
    keys = {child.key for child in owner.wanted if child.kind == owned.kind}
    return [child for child in children if child.key not in keys and not child.deleting]


def _is_own(owner: Owner, child: Child) -> bool:
    return child.proven and (child.controller_uid, child.parent) == (owner.uid, owner.key[1])
