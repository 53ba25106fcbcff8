"""M2: replacement backs off."""

from typing import Any

import pytest
from msgspec.structs import replace

from kopf_runtime.declaring.kinds import POD
from kopf_runtime.declaring.records import Child, Plan, Step, Wanted
from kopf_runtime.working import pace
from kopf_runtime.working.pace import Pace
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import at_work, caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, widget

KEY = ("ns", "w-one")
CHILD = Child(
    kind=POD,
    key=KEY,
    uid="u",
    version=1,
    controller_uid="o",
    created_for="o",
    parent="one",
    deleting=False,
    deadline=0.0,
    created=0.0,
    finalizers=(),
    template="t",
    generation=1,
    replaced=0,
    unlabelled=(),
    editors="",
    view=None,
)


WANTED = Wanted(POD, KEY, "t", "")
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
    child = replace(CHILD, created=now)
    while now < minutes * 60:
        now += life
        now += pace.wait(child, step, now)
        pace.deleted(POD, child, now, "o", step)
        former = pace.former(WANTED, "o")
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
            slow.applied(CHILD, WANTED, now)
        longest = pace.pause(changes)
        assert slow.wait_in_place(CHILD, WANTED, restored, now - back) <= longest
        another = replace(WANTED, template="edited")
        assert slow.wait_in_place(CHILD, another, edited, now - back) <= pace.pause(pace.FREE)

        child = replace(CHILD, created=now, replaced=changes)
        assert slow.wait(child, ENDED, now - back) <= longest
        slow.deleted(POD, child, now - back, "o", ENDED)
        former = slow.former(WANTED, "o")
        assert former is not None
        assert former.until - (now - back) <= longest


def test_an_edit_does_not_wait_for_what_went_before_or_was_written_by_hand() -> None:
    pace, child = Pace(), replace(CHILD, replaced=99)

    assert pace.wait(child, ENDED, now=10.0) > 200
    assert pace.wait(child, EDITED, now=10.0) == 0


def test_the_cause_of_a_deletion_outlives_the_news_of_it() -> None:
    pace = Pace()
    pace.deleted(POD, CHILD, 1.0, "o", EDITED)
    pace.lost(POD, CHILD, 2.0)  # a watch tells

    former = pace.former(WANTED, "o")
    assert former is not None
    assert former.cause is EDITED


def test_what_befell_the_child_of_a_former_object_of_the_name_counts_for_nothing() -> None:
    pace, successor = Pace(), replace(CHILD, uid="v")
    pace.deleted(POD, CHILD, 0.0, "o", ENDED)
    pace.created(POD, successor)
    assert pace.replaced(successor) == 1

    another = replace(CHILD, uid="w", controller_uid="p", created_for="p")
    pace.deleted(POD, successor, 0.0, "o", ENDED)
    pace.created(POD, another)
    assert pace.replaced(another) == 0


def test_m2_the_first_replacements_do_not_wait_for_a_clock_that_is_behind() -> None:
    pace, child = Pace(), replace(CHILD, created=10.0)
    pace.lost(POD, child, now=9.5)

    former = pace.former(WANTED, "o")
    assert former is not None
    assert max(pace.wait(child, ENDED, now=9.5), former.until - 9.5) <= 0


def test_m2_what_stayed_or_was_another_object_s_does_not_count() -> None:
    pace = Pace()
    pace.lost(POD, replace(CHILD, replaced=9), now=3600.0)

    former = pace.former(WANTED, "o")
    assert former is not None
    assert former.count == 0
    assert pace.former(WANTED, "another") is None


def test_m3_children_that_never_come_back_are_forgotten() -> None:
    slow = Pace()
    for number in range(pace.REMEMBERED + 10):
        slow.lost(POD, replace(CHILD, key=("ns", str(number)), replaced=9), now=1.0)

    first, last = (replace(WANTED, key=("ns", str(n))) for n in (0, pace.REMEMBERED + 9))
    assert slow.former(first, "o") is None
    assert slow.former(last, "o") is not None


def test_a_lost_child_is_forgotten_once_another_replica_has_made_the_next() -> None:
    pace = Pace()
    pace.lost(POD, CHILD, now=1.0)
    pace.created(POD, replace(CHILD, version=2))  # late news of the lost one
    assert pace.former(WANTED, "o") is not None

    pace.created(POD, replace(CHILD, uid="next"))

    assert pace.former(WANTED, "o") is None


async def test_a_standby_remembers_a_lost_child_until_the_next(server: ApiServer) -> None:
    def is_known() -> bool:
        """Tell whether the standby knows the Pod that there is."""
        known = caches(standby).children[POD].cache.get(KEY)
        there = server.get(POD, KEY)
        return known is not None and there is not None and known.uid == there["metadata"]["uid"]

    def is_remembered() -> bool:
        """Tell whether the standby remembers a Pod that there was."""
        return at_work(standby).pace.former(WANTED, owner["metadata"]["uid"]) is not None

    standby, leader = (widgets.controller(widgets.pod) for _ in range(2))
    server.put(WIDGET, widget())
    async with operating(server, standby, working=False):
        async with operating(server, leader):
            await until(is_known)
        owner = server.get(WIDGET, ("ns", "one")) or {}
        server.remove(POD, KEY)
        await until(is_remembered)

        async with operating(server, widgets.controller(widgets.pod)):
            await until(is_known)

    assert not is_remembered()
