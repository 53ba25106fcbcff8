"""`decide` says what to do about a child from what is observed, and `pace` when."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_runtime.declaring.kinds import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, SECRET, Kind
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Child, Owned, Owner, Plan, Step, Update, Wanted
from kopf_runtime.reporting import troubles
from kopf_runtime.working import pace
from kopf_runtime.working.decide import ObservedChildren, Seen, decide, plan, stripped
from kopf_runtime.working.pace import Pace
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import at_work, caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, widget, working_on

OWNER = Owner(("ns", "one"), "o", 5, 2, False, (), {}, None, (), "", 0)
WANTED = Wanted(CONFIG_MAP, ("ns", "w-one"), "new", "shape")
FIRST = Wanted(POD, ("ns", "first"), "new", "shape")
OWNED = Owned(CONFIG_MAP, kr.Object, Update.APPLY, lambda _: None, lambda _: "")
#: A child as it is wanted.
CHILD = Child(
    kind=CONFIG_MAP,
    key=("ns", "w-one"),
    uid="c",
    version=3,
    controller_uid="o",
    created_for="o",
    parent="one",
    deleting=False,
    deadline=0.0,
    created=0.0,
    finalizers=(),
    template="new",
    generation=2,
    replaced=0,
    unlabelled=(),
    editors="somebody",
    view=None,
    proven=True,
)
OLDER = replace(CHILD, template="old", generation=1)


def seen(child: Child | None, update: Update = Update.APPLY, **more: Any) -> Seen:
    return Seen(
        owner=OWNER, wanted=WANTED, owned=replace(OWNED, update=update), child=child, **more
    )


EDITED_TEXT, FORMER = "change {} (the Widget was edited)", "wait for the former {}"
ALTERED = "change {} (its ConfigMap was altered by somebody)"
REPLACED_ALTERED = ALTERED.replace("change", "replace")
ADMITTED, MARKLESS = "change {} (admission had changed it)", "change {} (it had lost its marks)"
OTHERWISE = "replace {} (its ConfigMap's template changed)"
OTHER_OWNER = "wait for the other owner of {}"
HELD_BACK = "hold back {} ({} waits for Pod first: it is Pending)"
UNSERVED = troubles.missing(POD, "no")
THEIRS: dict[str, Any] = {"controller_uid": "x", "created_for": "x"}
TERMINATING = "ConfigMapTerminating"
UNLABELLED = replace(CHILD, unlabelled=("a",))
AGED, GOING = replace(UNLABELLED, template="old"), replace(UNLABELLED, deleting=True)
PENDING = FIRST, "it is Pending."


@pytest.mark.parametrize(
    ("case", "step", "reason", "text"),
    [
        (seen(None), "create", "", "create {}"),
        (seen(None, taken=True), "create", "AlreadyExists", "create {}"),
        (seen(None, pause=lambda _: 0.5), "create", "BackOff", "create {}"),
        (seen(None, first=PENDING), "create", "Waiting", HELD_BACK),
        (seen(CHILD), "keep", "", ""),
        (seen(CHILD, first=PENDING), "keep", "", ""),
        (seen(OLDER), "apply", "", EDITED_TEXT),
        (seen(OLDER, Update.RECREATE), "delete", "", "replace {} (the Widget was edited)"),
        (seen(OLDER, Update.CREATE), "keep", "", ""),
        (seen(OLDER, pause=lambda _: 0.5), "apply", "BackOff", EDITED_TEXT),
        (seen(CHILD, altered=True), "apply", "", ALTERED),
        (seen(CHILD, Update.RECREATE, altered=True), "delete", "", REPLACED_ALTERED),
        (seen(CHILD, Update.CREATE, altered=True), "keep", "", ""),
        (seen(UNLABELLED, altered=True), "apply", "", ALTERED),
        (seen(UNLABELLED, Update.RECREATE, altered=True), "delete", "", REPLACED_ALTERED),
        (seen(UNLABELLED, Update.CREATE, altered=True), "apply", "", MARKLESS),
        (seen(UNLABELLED, as_admitted=True), "apply", "", ADMITTED),
        (seen(UNLABELLED, Update.CREATE, as_admitted=True), "apply", "", ADMITTED),
        (seen(AGED, as_admitted=True), "apply", "", ADMITTED),
        (seen(AGED, Update.RECREATE, as_admitted=True), "delete", "", OTHERWISE),
        (seen(AGED, Update.CREATE, as_admitted=True), "apply", "", ADMITTED),
        *((seen(GOING, update, as_admitted=True), "wait", "", FORMER) for update in Update),
        *((seen(CHILD, update, as_admitted=True), "keep", "", "") for update in Update),
        (seen(replace(CHILD, deleting=True)), "wait", "", FORMER),
        (seen(replace(CHILD, **THEIRS, parent="one")), "wait", TERMINATING, FORMER),
        (seen(replace(CHILD, **THEIRS, parent="two")), "conflict", "Conflict", OTHER_OWNER),
        (seen(replace(CHILD, deleting=True, created_for="")), "wait", TERMINATING, FORMER),
        (seen(OLDER, contended=lambda: UNSERVED), "apply", "KindNotServed", EDITED_TEXT),
        (seen(UNLABELLED, Update.RECREATE, as_admitted=True), "admission", "AdmissionChanged", ""),
        (seen(OLDER, held=True), "apply", "", EDITED_TEXT),
        (seen(replace(OLDER, generation=2), held=True), "keep", "", ""),
    ],
)
def test_what_is_done_about_a_child(case: Seen, step: str, reason: str, text: str) -> None:
    action = decide(case, "Widget")

    assert action.plan.step.name.lower() == step
    assert (action.stop.trouble.reason if action.stop.trouble else "") == reason
    assert action.text == text.replace("{}", "ConfigMap w-one")


CHILDREN = st.builds(
    lambda **parts: replace(CHILD, **parts),
    controller_uid=st.sampled_from(["", "o", "x"]),
    created_for=st.sampled_from(["", "o", "x"]),
    parent=st.sampled_from(["", "one", "other"]),
    deleting=st.booleans(),
    template=st.sampled_from(["", "new", "old"]),
    generation=st.integers(0, 3),
    unlabelled=st.sampled_from([(), ("app.kubernetes.io/managed-by",)]),
    retained=st.booleans(),
)
SEEN = st.builds(
    lambda update, child, outlives, **more: replace(
        seen(child, update, **more), wanted=replace(WANTED, outlives=outlives)
    ),
    update=st.sampled_from(list(Update)),
    child=CHILDREN,
    outlives=st.booleans(),
    altered=st.booleans(),
    as_admitted=st.booleans(),
    held=st.booleans(),
    owner_exists=st.sampled_from([lambda _: True, lambda _: False]),
    first=st.sampled_from([None, (FIRST, "it is Pending")]),
    pause=st.sampled_from([lambda _: 0.0, lambda _: 9.0]),
)


@settings(max_examples=2000, deadline=None)
@given(case=SEEN)
def test_whatever_is_seen_of_a_child_no_data_is_deleted_and_no_stranger_touched(case: Seen) -> None:
    action = decide(case, "Widget")
    child, step = case.child, action.plan.step
    assert child is not None

    if case.owned.update is not Update.RECREATE:
        assert step is not Step.DELETE, "what is changed in place may hold data"
    made = case.as_admitted or "o" in (child.controller_uid, child.created_for)
    if not made and child.parent == "other":
        assert step in (Step.CONFLICT, Step.WAIT, Step.KEEP), "it is another object's"
    if child.deleting and child.controller_uid == "o":
        assert step in (Step.WAIT, Step.KEEP, Step.APPLY, Step.ADMISSION)
    if case.first is not None and step in (Step.APPLY, Step.DELETE):
        assert action.stop.trouble, "another one comes first"
    if action.plan.verify or not case.held:
        return
    edited = child.template != case.wanted.template and not action.plan.edited
    assert not (edited and step in (Step.APPLY, Step.DELETE)), "what exists stays"


# --- what is not wanted any more -----------------------------------------------------------------


def observed(
    *children: Child,
    wanted: tuple[Wanted, ...] = (),
    missing: Mapping[tuple[Kind, str], str] | None = None,
    absent: tuple[tuple[Kind, str], ...] = (),
    **owned: Any,
) -> ObservedChildren:
    kinds = (CONFIG_MAP, PERSISTENT_VOLUME_CLAIM)
    declared = {kind: replace(OWNED, kind=kind, **{"prune": None} | owned) for kind in kinds}
    served = {(kind, "ns"): "" for kind in kinds}
    named = {(child.kind, child.key): child for child in children}
    return ObservedChildren(
        owner=replace(OWNER, wanted=wanted),
        word="Widget",
        owned=declared,
        wanted=wanted,
        named={(w.kind, w.key): named.get((w.kind, w.key)) for w in wanted},
        children={kind: [child for child in children if child.kind == kind] for kind in kinds},
        missing=served | dict(missing or {}),
        absent=absent,
    )


CLAIM = replace(CHILD, kind=PERSISTENT_VOLUME_CLAIM)
OTHER = replace(CHILD, key=("ns", "other"))
MISSING = {(PERSISTENT_VOLUME_CLAIM, "ns"): "it cannot be listed"}
ABSENT = ((PERSISTENT_VOLUME_CLAIM, "ns"),)


REMOVED = {
    "not wanted": (observed(CHILD), ["w-one"], ""),
    "may hold data": (observed(CLAIM), [], ""),
    "declared to go": (observed(CLAIM, prune=True), ["w-one"], ""),
    "declared to stay": (observed(CHILD, prune=False), [], ""),
    "a copy": (observed(replace(CHILD, proven=False)), [], ""),
    "another object's": (observed(replace(CHILD, controller_uid="x")), [], ""),
    "of another name": (observed(replace(CHILD, parent="other")), [], ""),
    "going": (observed(replace(CHILD, deleting=True)), [], ""),
    "beside a ready one": (observed(CHILD, OTHER, wanted=(WANTED,)), ["other"], ""),
    "beside one that is not up to date": (observed(OLDER, OTHER, wanted=(WANTED,)), [], ""),
    "declared to go at once": (observed(OLDER, OTHER, wanted=(WANTED,), prune=True), ["other"], ""),
    "beside one that is not there yet": (observed(OTHER, wanted=(WANTED,)), [], ""),
    "beside another object's": (
        observed(replace(CHILD, controller_uid="x"), OTHER, wanted=(WANTED,)),
        [],
        "",
    ),
    "beside what is created once": (
        observed(OLDER, OTHER, wanted=(WANTED,), update=Update.CREATE),
        ["other"],
        "",
    ),
    "others cannot be seen": (observed(CHILD, missing=MISSING), [], "KindNotServed"),
    "others cannot be there": (observed(CHILD, missing=MISSING, absent=ABSENT), ["w-one"], ""),
}


@pytest.mark.parametrize(("case", "names", "reason"), REMOVED.values(), ids=REMOVED)
def test_what_is_removed(case: ObservedChildren, names: list[str], reason: str) -> None:
    children, stop = case.removals()

    assert [child.key[1] for child in children] == names
    assert (stop.trouble.reason if stop.trouble else "") == reason


@pytest.mark.parametrize(
    ("case", "settled"),
    [
        (observed(CHILD, wanted=(WANTED,)), True),
        (observed(OLDER, wanted=(WANTED,)), False),
        (observed(OLDER, wanted=(WANTED,), update=Update.CREATE), True),
        (observed(replace(CHILD, deleting=True), wanted=(WANTED,)), False),
        (observed(OTHER, wanted=(WANTED,)), False),
        (observed(CLAIM), True),
    ],
)
def test_an_edit_is_settled_once_no_child_is_of_a_former_plan(
    case: ObservedChildren, settled: bool
) -> None:
    assert case.is_settled() is settled


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (("ns", "w-one"), "KindNotServed"),
        (("far", "w-one"), "NamespaceNotServed"),
        (("near", "w-one"), ""),
    ],
)
def test_a_child_whose_kind_is_not_served_is_named(key: tuple[str, str], reason: str) -> None:
    spaces = {(CONFIG_MAP, "ns"): "no", (CONFIG_MAP, "far"): "no", (CONFIG_MAP, "near"): ""}
    case = observed(missing=spaces)

    stop = case.why_missing([(CONFIG_MAP, ("near", "first")), (CONFIG_MAP, key)])

    assert (stop.trouble.reason if stop.trouble else "") == reason
    assert case.can_be_served(replace(WANTED, key=key)) is not bool(reason)


def test_a_step_that_waits_says_so_of_what_it_waits_for() -> None:
    action = decide(seen(None, first=(FIRST, "it is Pending")), "Widget")

    assert action.waits
    assert action.stop == troubles.waiting(WANTED, FIRST, "it is Pending")
    assert not decide(seen(OLDER), "Widget").waits
    assert Plan(Step.CREATE) == decide(seen(None), "Widget").plan


# --- the next step for a child, from what is seen of it: a row for each thing that decides --------


MINE = Owner(("ns", "one"), "me", 1, 5, False, (), {}, None, (), "", 0)
SECRET_WANTED = Wanted(SECRET, ("ns", "child"), "now", "shape")
SECRET_CHILD = Child(
    SECRET,
    *(("ns", "child"), "c", 1, "me", "me", "one", False, 0.0, 0.0, (), "now", 5, 0, (), "", ""),
    proven=True,
)
GONE = {"controller_uid": "", "created_for": "gone"}
OLD, OUTDATED = {"template": "old"}, {"outdated": True}
PARTED, RETAINED = {"controller_uid": ""}, {"retained": True}
#: What is seen; the step in place, by a new child, and for what is created once; why, with flags.
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "right": ({}, "keep keep keep", ""),
    "being deleted": ({"deleting": True}, "wait wait wait", ""),
    "edited": (OLD | {"generation": 4}, "apply delete keep", "Replaced edited: the Thing was"),
    "edited at first": (OLD | {"generation": 1}, "apply delete keep", "Replaced edited: the Thing"),
    "another template": (OLD, "apply delete keep", "Replaced verify: its Secret's temp"),
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
    "no marks": (PARTED | {"created_for": "", "parent": ""}, "conflict conflict conflict", ""),
    "somebody's": ({"controller_uid": "x", "parent": "two"}, "conflict conflict conflict", ""),
    "a former one's": ({"controller_uid": "gone", "created_for": "gone"}, "wait wait wait", ""),
    "left behind": (GONE, "apply delete apply", "Healed verify: it was left behind by a former"),
    "left behind, going": (GONE | {"deleting": True}, "wait wait wait", ""),
    "left behind, nameless": (GONE | {"parent": ""}, "apply delete apply", "Healed verify: it was"),
    "left behind, no template": (GONE | {"template": ""}, "conflict conflict conflict", ""),
    "left behind by another": (GONE | {"parent": "two"}, "conflict conflict conflict", ""),
    "of one that lives": (GONE | {"created_for": "alive"}, "conflict conflict conflict", ""),
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
    "no uid": (
        RETAINED | PARTED | {"created_for": ""},
        "apply delete apply",
        "Healed verify: it had",
    ),
    "taken": (PARTED, "apply delete apply", "Healed verify: its owner reference was taken away"),
    "unmade": (RETAINED | PARTED, "apply delete apply", "Healed verify: the operator had not"),
    "left behind, nameless": (GONE | {"parent": ""}, "conflict conflict conflict", ""),
}


def owned(update: Update, prune: bool | None = True) -> Owned:
    return Owned(SECRET, Object, update, lambda _: None, str, prune=prune)


def step(child: Child, update: Update, *, outlives: bool = False) -> tuple[str, str]:
    """Return the step, and why it is taken with its flags."""
    seen = Seen(
        owner=MINE,
        wanted=replace(SECRET_WANTED, outlives=outlives),
        owned=owned(update),
        child=child,
        owner_exists="alive".__eq__,
    )
    found = plan(seen, "Thing")
    flags = [flag for flag in ("edited", "verify") if getattr(found, flag)]
    return found.step.name.lower(), f"{' '.join([found.reason, *flags])}: {found.why}"


@pytest.mark.parametrize(
    ("outlives", "name"),
    [*((False, name) for name in CASES), *((True, name) for name in OUTLIVING)],
)
def test_s10_a_step_follows_from_what_is_seen_and_no_generation_is_no_edit(
    outlives: bool, name: str
) -> None:
    changes, steps, why = (OUTLIVING if outlives else CASES)[name]

    updates = Update.APPLY, Update.RECREATE, Update.CREATE
    for update, expected in zip(updates, steps.split(), strict=True):
        if expected != "-":
            found, said = step(replace(SECRET_CHILD, **changes), update, outlives=outlives)
            assert found == expected
            assert said.startswith(why if found in ("apply", "delete") else ": ")


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, []),
        ({"unlabelled": ("a",)}, ["the label a"]),
        ({"template": "", "controller_uid": "x"}, ["the annotation template-hash", "the owner"]),
    ],
)
def test_the_marks_that_a_child_lacks_are_named(changes: dict[str, Any], lacks: list[str]) -> None:
    found = stripped(MINE, replace(SECRET_CHILD, **changes))

    assert [name.removesuffix(" reference") for name in found] == lacks


# --- when it is done: replacement backs off (M2) --------------------------------------------------

POD_KEY = ("ns", "w-one")
PACED = replace(
    CHILD, kind=POD, uid="u", version=1, template="t", generation=1, editors="", proven=False
)
REPLACED_POD = Wanted(POD, POD_KEY, "t", "")
ENDED = Plan(Step.DELETE, "Healed", "it had ended")
EDITED = Plan(Step.DELETE, "Replaced", "it was edited", edited=True)


def replacements(
    minutes: float,
    life: float,
    restart_each: int = 0,
    step: Plan = ENDED,
    written: int | None = None,
) -> int:
    """Return how many children are made in that time if each lives for so many seconds.

    Somebody may have written another count into the annotation of each.
    """
    pace, made, now = Pace(), 0, 0.0
    child = replace(PACED, created=now)
    while now < minutes * 60:
        now += life
        now += pace.wait(child, step, now)
        pace.deleted(POD, child, now, "o", step)
        former = pace.former(REPLACED_POD, "o")
        assert former is not None
        now = max(now, former.until)
        made += 1
        count = former.count if written is None else written
        child = replace(child, uid=f"u-{made}", created=now, replaced=count)
        pace.created(POD, child)
        if restart_each and made % restart_each == 0:
            pace = Pace()  # another replica: it knows only what stands in the child
    return made


@pytest.mark.parametrize(
    ("how", "fewest", "most"),
    [
        ({"minutes": 0.01, "life": 0.1}, pace.FREE, pace.FREE + 8),
        ({"minutes": 1, "life": 0.1}, pace.FREE, pace.FREE + 8),
        ({"minutes": 60, "life": 0.1}, pace.FREE, 25),
        ({"minutes": 60, "life": 120}, 29, 31),
        ({"minutes": 60, "life": 0.1, "restart_each": 1}, 1, 25),
        ({"minutes": 60, "life": 0.1, "written": 0}, 1, 25),
        ({"minutes": 60, "life": 0.1, "written": 3}, 1, 25),
        ({"minutes": 1, "life": 0.1, "step": EDITED}, 1, pace.FREE + 10),
        ({"minutes": 1, "life": 0.1, "step": EDITED, "written": 99}, pace.FREE + 2, pace.FREE + 10),
    ],
    ids=[
        "m2 the first do not wait",
        "m2 a minute",
        "m2 an hour",
        "m2 of those that live for minutes, none waits",
        "m2 across restarts",
        "t7 a count set to none speeds nothing up",
        "t7 a count set back speeds nothing up",
        "a storm of edits",
        "t7 edits after a count that a hand raised",
    ],
)
def test_m2_t7_so_many_children_are_made_in_that_time(
    how: dict[str, Any], fewest: int, most: int
) -> None:
    assert fewest <= replacements(**how) <= most


@pytest.mark.parametrize("back", [0.5, 60.0, 86_400.0])
def test_c6_a_clock_that_goes_back_holds_up_no_change_beyond_its_pause(back: float) -> None:
    edited = Plan(Step.APPLY, "Replaced", "it was edited", edited=True)
    restored = Plan(Step.APPLY, "Restored", "it was altered")
    for changes in range(12):
        slow, now = Pace(), 1e6
        for _ in range(changes):
            slow.applied(PACED, REPLACED_POD, now)
        longest = pace.pause(changes)
        assert slow.wait_in_place(PACED, REPLACED_POD, restored, now - back) <= longest
        another = replace(REPLACED_POD, template="edited")
        assert slow.wait_in_place(PACED, another, edited, now - back) <= pace.pause(pace.FREE)

        child = replace(PACED, created=now, replaced=changes)
        assert slow.wait(child, ENDED, now - back) <= longest
        slow.deleted(POD, child, now - back, "o", ENDED)
        former = slow.former(REPLACED_POD, "o")
        assert former is not None
        assert former.until - (now - back) <= longest


def test_an_edit_does_not_wait_for_what_went_before_or_was_written_by_hand() -> None:
    pace, child = Pace(), replace(PACED, replaced=99)

    assert pace.wait(child, ENDED, now=10.0) > 200
    assert pace.wait(child, EDITED, now=10.0) == 0


def test_the_cause_of_a_deletion_outlives_the_news_of_it() -> None:
    pace = Pace()
    pace.deleted(POD, PACED, 1.0, "o", EDITED)
    pace.lost(POD, PACED, 2.0)  # a watch tells

    former = pace.former(REPLACED_POD, "o")
    assert former is not None
    assert former.cause is EDITED


def test_what_befell_the_child_of_a_former_object_of_the_name_counts_for_nothing() -> None:
    pace, successor = Pace(), replace(PACED, uid="v")
    pace.deleted(POD, PACED, 0.0, "o", ENDED)
    pace.created(POD, successor)
    assert pace.replaced(successor) == 1

    another = replace(PACED, uid="w", controller_uid="p", created_for="p")
    pace.deleted(POD, successor, 0.0, "o", ENDED)
    pace.created(POD, another)
    assert pace.replaced(another) == 0


def test_m2_the_first_replacements_do_not_wait_for_a_clock_that_is_behind() -> None:
    pace, child = Pace(), replace(PACED, created=10.0)
    pace.lost(POD, child, now=9.5)

    former = pace.former(REPLACED_POD, "o")
    assert former is not None
    assert max(pace.wait(child, ENDED, now=9.5), former.until - 9.5) <= 0


def test_m2_what_stayed_or_was_another_object_s_does_not_count() -> None:
    pace = Pace()
    pace.lost(POD, replace(PACED, replaced=9), now=3600.0)

    former = pace.former(REPLACED_POD, "o")
    assert former is not None
    assert former.count == 0
    assert pace.former(REPLACED_POD, "another") is None


def test_m3_children_that_never_come_back_are_forgotten() -> None:
    slow = Pace()
    for number in range(pace.REMEMBERED + 10):
        slow.lost(POD, replace(PACED, key=("ns", str(number)), replaced=9), now=1.0)

    first, last = (replace(REPLACED_POD, key=("ns", str(n))) for n in (0, pace.REMEMBERED + 9))
    assert slow.former(first, "o") is None
    assert slow.former(last, "o") is not None


def test_a_lost_child_is_forgotten_once_another_replica_has_made_the_next() -> None:
    pace = Pace()
    pace.lost(POD, PACED, now=1.0)
    pace.created(POD, replace(PACED, version=2))  # late news of the lost one
    assert pace.former(REPLACED_POD, "o") is not None

    pace.created(POD, replace(PACED, uid="next"))

    assert pace.former(REPLACED_POD, "o") is None


async def test_a_standby_remembers_a_lost_child_until_the_next(server: ApiServer) -> None:
    def is_known() -> bool:
        """Tell whether the standby knows the Pod that there is."""
        known = caches(standby).children[POD].cache.get(POD_KEY)
        there = server.get(POD, POD_KEY)
        return known is not None and there is not None and known.uid == there["metadata"]["uid"]

    def is_remembered() -> bool:
        """Tell whether the standby remembers a Pod that there was."""
        return at_work(standby).pace.former(REPLACED_POD, owner["metadata"]["uid"]) is not None

    standby, leader = (widgets.controller(widgets.pod) for _ in range(2))
    async with working_on(server, widget(), standby, working=False):
        async with operating(server, leader):
            await until(is_known)
        owner = server.get(WIDGET, ("ns", "one")) or {}
        server.remove(POD, POD_KEY)
        await until(is_remembered)

        async with operating(server, widgets.controller(widgets.pod)):
            await until(is_known)

    assert not is_remembered()


@pytest.mark.parametrize(("number", "named"), [(3, "b, Pod c. It"), (4, "b, Pod c and 1 more. It")])
def test_what_stays_is_named_up_to_three(number: int, named: str) -> None:
    pods = [replace(CHILD, kind=POD, key=("ns", name)) for name in "abcd"[:number]]

    assert troubles.kept(pods).startswith(f"Not wanted any more: Pod a, Pod {named}")


def test_what_is_not_ours_is_told_with_what_to_do_about_it() -> None:
    rename = "give the Widget another name."
    stray, retained = (
        troubles.stray("Widget", replace(CHILD, retained=retained)) for retained in (False, True)
    )

    taken = troubles.conflict(WANTED, "Widget").why
    assert taken.endswith(f"Find out who needs that ConfigMap, or {rename}")
    taken = troubles.conflict(WANTED, "Widget", "kubectl x").why
    assert taken.endswith(f"hand it over with `kubectl x`; otherwise, {rename}")
    assert stray.startswith(f"{retained} The garbage collector deletes it with this Widget")
    assert retained.startswith("ConfigMap w-one has marks of this Widget, but not all of them")


@pytest.mark.parametrize(
    ("deadline", "changes", "told"),
    [
        (
            0.0,
            {"deleting": False},
            "Pod waits for the garbage collector. If it stays, delete the Pod w-",
        ),
        (100.0, {}, "Pod is being deleted."),
        (99.5, {}, "Pod does not end: its node has not confirmed that."),
        (99.5, {"finalizers": ("a.b/c",)}, "Pod is held by the finalizer a.b/c."),
    ],
)
def test_r5_a_former_child_is_stuck_half_a_minute_after_its_grace_period(
    deadline: float, changes: dict[str, Any], told: str
) -> None:
    ending: dict[str, Any] = {"deleting": True, "deadline": deadline, **changes}
    trouble = troubles.former_left("Widget", replace(CHILD, kind=POD, **ending), 130.0).trouble

    assert trouble is not None
    assert trouble.message.startswith(f"The former Widget's {told}")
    assert trouble.reason == ("PodStuckTerminating" if deadline == 99.5 else "PodTerminating")
