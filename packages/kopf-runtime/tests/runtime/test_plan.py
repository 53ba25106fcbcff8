"""The next step for a child, from what is seen of it: a row for each thing that decides."""

from typing import Any

import pytest
from msgspec.structs import replace

from kopf_runtime.declaring.kinds import SECRET
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Child, Owned, Owner, Update, Wanted
from kopf_runtime.working.decide import Seen, plan, stripped

OWNER = Owner(("ns", "one"), "me", 1, 5, False, (), {}, None, (), "", 0)
WANTED = Wanted(SECRET, ("ns", "child"), "now", "shape")
CHILD = Child(
    SECRET,
    *(("ns", "child"), "c", 1, "me", "me", "one", False, 0.0, 0.0, (), "now", 5, 0, (), "", ""),
    proven=True,
)
GONE = {"controller_uid": "", "made_for": "gone"}
OLD, OUTDATED = {"template": "old"}, {"outdated": True}
PARTED, RETAINED = {"controller_uid": ""}, {"retained": True}
#: What is seen; the step in place, by a new child, and for what is created once; why, with flags.
SEEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "right": ({}, "keep keep keep", ""),
    "being deleted": ({"deleting": True}, "wait wait wait", ""),
    "edited": (OLD | {"generation": 4}, "apply delete keep", "Replaced edited: the Thing was"),
    "edited at first": (OLD | {"generation": 1}, "apply delete keep", "Replaced edited: the Thing"),
    "another template": (OLD, "apply delete keep", "Replaced verify: its Secret's template"),
    "no generation": (OLD | {"generation": 0}, "apply delete keep", "Replaced verify: its Secret"),
    "by a hand": (OLD | {"generation": 6}, "apply delete keep", "Healed verify: its Secret's gen"),
    "ended": ({"view": "Failed"}, "delete delete keep", "Healed: its Secret had ended (Failed)"),
    "outdated": (OUTDATED, "apply keep apply", "Healed verify: its owner reference named another"),
    "outdated since": (
        OUTDATED | {"generation": 4},
        "apply keep apply",
        "Healed edited verify: its",
    ),
    "outdated, first": (
        OUTDATED | {"generation": 1},
        "apply keep apply",
        "Healed edited verify: it",
    ),
    "outdated long": (OUTDATED | {"generation": 0}, "apply keep apply", "Healed verify: its owner"),
    "parted": (PARTED, "apply delete apply", "Healed verify: its owner reference was taken away"),
    "parted, no template": (PARTED | {"template": ""}, "apply delete apply", "Healed verify: its"),
    "parted, no name": (PARTED | {"parent": ""}, "apply delete apply", "Healed verify: its owner"),
    "no marks": (PARTED | {"made_for": "", "parent": ""}, "conflict conflict conflict", ""),
    "somebody's": ({"controller_uid": "x", "parent": "two"}, "conflict conflict conflict", ""),
    "a former one's": ({"controller_uid": "gone", "made_for": "gone"}, "wait wait wait", ""),
    "left behind": (GONE, "apply delete apply", "Healed verify: it was left behind by a former"),
    "left behind, going": (GONE | {"deleting": True}, "wait wait wait", ""),
    "left behind, nameless": (GONE | {"parent": ""}, "apply delete apply", "Healed verify: it was"),
    "left behind, no template": (GONE | {"template": ""}, "conflict conflict conflict", ""),
    "left behind by another": (GONE | {"parent": "two"}, "conflict conflict conflict", ""),
    "of one that lives": (GONE | {"made_for": "alive"}, "conflict conflict conflict", ""),
    "unlabelled": ({"unlabelled": ("a",)}, "apply admission -", "Healed: admission had changed it"),
    "unlabelled, once": ({"unlabelled": ("a",)}, "- - apply", "Healed verify: it had lost its mar"),
    "no reference": (RETAINED, "apply keep apply", "Healed verify: it had no owner reference"),
}
#: The same of what is to outlive its owner.
OUTLIVING: dict[str, tuple[dict[str, Any], str, str]] = {
    "right": (RETAINED, "keep keep keep", ""),
    "referring": ({}, "apply keep apply", "Healed verify: its owner reference was to go"),
    "nameless": (
        RETAINED | {"parent": ""},
        "apply keep apply",
        "Healed verify: it had lost its own",
    ),
    "no uid": (RETAINED | PARTED | {"made_for": ""}, "apply delete apply", "Healed verify: it had"),
    "taken": (PARTED, "apply delete apply", "Healed verify: its owner reference was taken away"),
    "unmade": (RETAINED | PARTED, "apply delete apply", "Healed verify: the operator had not"),
    "left behind, nameless": (GONE | {"parent": ""}, "conflict conflict conflict", ""),
}


def owned(update: Update, prune: bool | None = True) -> Owned:
    return Owned(SECRET, Object, update, lambda _: None, str, prune=prune)


def step(
    child: Child,
    update: Update,
    *,
    outlives: bool = False,
    altered: bool = False,
    as_admitted: bool = False,
) -> tuple[str, str]:
    """Return the step, and why it is taken with its flags."""
    seen = Seen(
        owner=OWNER,
        wanted=replace(WANTED, outlives=outlives),
        owned=owned(update),
        child=child,
        altered=altered,
        as_admitted=as_admitted,
        lives="alive".__eq__,
    )
    found = plan(seen, "Thing")
    flags = [flag for flag in ("edited", "verify") if getattr(found, flag)]
    return found.step.name.lower(), f"{' '.join([found.reason, *flags])}: {found.why}"


@pytest.mark.parametrize(
    ("outlives", "name"), [*((False, name) for name in SEEN), *((True, name) for name in OUTLIVING)]
)
def test_a_step_follows_from_what_is_seen(outlives: bool, name: str) -> None:
    changes, steps, why = (OUTLIVING if outlives else SEEN)[name]

    updates = Update.APPLY, Update.RECREATE, Update.CREATE
    for update, expected in zip(updates, steps.split(), strict=True):
        if expected != "-":
            found, said = step(replace(CHILD, **changes), update, outlives=outlives)
            assert found == expected
            assert said.startswith(why if found in ("apply", "delete") else ": ")


@pytest.mark.parametrize(
    ("changes", "says", "steps"),
    [
        ({"editors": "eve"}, "altered", ["apply", "delete", "keep"]),
        ({"unlabelled": ("a",)}, "altered", ["apply", "delete", "apply"]),
        ({"unlabelled": ("a",)}, "as_admitted", ["apply", "admission", "apply"]),
        ({"unlabelled": ("a",), "deleting": True}, "as_admitted", ["wait", "wait", "wait"]),
        (OLD | {"unlabelled": ("a",)}, "as_admitted", ["apply", "delete", "apply"]),
        ({}, "as_admitted", ["keep", "keep", "keep"]),
    ],
)
def test_what_somebody_altered_is_put_right_and_what_admission_changed_is_not_deleted(
    changes: dict[str, Any], says: str, steps: list[str]
) -> None:
    child = replace(CHILD, **changes)
    updates = Update.APPLY, Update.RECREATE, Update.CREATE

    found = [step(child, update, **{says: True}) for update in updates]

    assert [taken for taken, _ in found] == steps
    if says == "as_admitted" and "apply" in steps:
        assert found[0][1] == "Healed: admission had changed it"
    if changes == {"editors": "eve"}:
        assert found[1][1] == "Healed: its Secret was altered by eve"


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, []),
        ({"unlabelled": ("a",)}, ["the label a"]),
        ({"template": "", "controller_uid": "x"}, ["the annotation template-hash", "the owner"]),
    ],
)
def test_the_marks_that_a_child_lacks_are_named(changes: dict[str, Any], lacks: list[str]) -> None:
    found = stripped(OWNER, replace(CHILD, **changes))

    assert [name.removesuffix(" reference") for name in found] == lacks
