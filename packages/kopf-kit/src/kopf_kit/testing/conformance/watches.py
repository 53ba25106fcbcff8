"""What is watched and listed goes wrong; the operator finds out, and all comes right."""

import asyncio
import json
from collections.abc import Callable
from signal import Signals

import pytest

from kopf_kit.testing import calls
from kopf_kit.testing.calls import Answer, Call, Cut, EventMatch, Forward
from kopf_kit.testing.conformance import essential
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import Kind


def of(kind: Kind, type_: str = "") -> EventMatch:
    """Match the events of a kind of object, or those of one type."""
    type_sought = type_.encode()
    return lambda call, line: (
        call.plural == kind.plural and type_sought in line and b"BOOKMARK" not in line
    )


def cut_in_mid_event(_: Call, line: bytes) -> bytes:
    raise Cut(line[: len(line) // 2])


def half_an_event(_: Call, line: bytes) -> bytes:
    return line[: len(line) // 2]


def no_json(_: Call, __: bytes) -> bytes:
    return b"<html>502 Bad Gateway</html>"


def never(_: Call, __: bytes) -> None:
    return None


def gone(_: Call, __: bytes) -> bytes:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return json.dumps({"type": "ERROR", "object": status}).encode()


@pytest.mark.parametrize("harm", [cut_in_mid_event, half_an_event, no_json, gone])
async def test_a_watch_breaks_in_mid_event(
    here: World, harm: Callable[[Call, bytes], bytes]
) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    for kind, text in zip(here.parent.watched, ("둘", "셋"), strict=False):
        here.proxy.arm_events(of(kind), harm)
        await here.edit(text)
        await here.converges({"hello": text})
    assert len(here.operator.exits) <= 1  # its supervisor may start it again


async def test_410_hides_a_deletion_and_the_resync_finds_the_ghost(here: World) -> None:
    await here.start()
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    # The list that follows has it no more.
    here.proxy.arm_events(of(here.parent.child, '"DELETED"'), gone)
    await here.cluster.remove(here.child(), grace=0)

    await here.converges({"hello": "하나"})
    assert here.operator.exits == []


async def test_events_that_never_come_are_found_by_the_resync(here: World) -> None:
    await here.start("--resync-period=2")
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    for kind in (here.subject.kind, here.parent.child):
        here.proxy.arm_events(of(kind), never, float("inf"))
    await here.create("둘", "two")
    await here.cluster.remove(here.child(), grace=0)

    await here.converges({"hello": "하나", "two": "둘"})
    assert here.operator.exits == []


async def test_410_on_a_page_of_a_list(here: World) -> None:
    if not here.subject.pages:
        pytest.skip(f"the operator of {here.subject} lists without pages")
    names = [f"m{number}" for number in range(10)]
    for name in names:
        await here.create("하나", name)
    await here.start()
    await here.converges(dict.fromkeys(names, "하나"), quiet=0.1)
    here.proxy.arm(
        lambda call: call.lists and "limit" in call.query and "continue" not in call.query,
        _first_page_only,
        4,
    )
    here.proxy.arm(
        lambda call: call.lists and "continue" in call.query, calls.refuse(410, "Expired"), 4
    )

    here.operator.send(Signals.SIGKILL)
    for name in names:
        await here.edit("둘", name)

    await here.converges(dict.fromkeys(names, "둘"))


async def _first_page_only(call: Call, forward: Forward) -> Answer:
    """Say that there is another page, which will have expired."""
    answer = await forward()
    page = json.loads(answer.body)
    page["items"] = page.get("items", [])[:5]
    page.setdefault("metadata", {})["continue"] = "expired"
    return Answer(answer.status, json.dumps(page).encode(), answer.headers)


@pytest.mark.long  # kopf leaves a silent watch after 70 s
async def test_a_black_hole_is_left_in_time(here: World) -> None:
    """Nothing is answered for a while: neither writes nor lists, and the watches are silent."""
    await here.start("--request-timeout=2")
    await here.create("하나")
    await here.converges({"hello": "하나"}, quiet=0.1)

    # Silent first, while the watches are open: those after the drop may open when all is over.
    silence = here.proxy.arm_events(lambda _, __: True, never, float("inf"))
    await here.edit("둘")
    await here.met(silence)
    hole = here.proxy.arm(lambda _: True, calls.swallow, 4)
    here.proxy.drop_connections()
    async with here.within(60, "the hole was met"):
        while hole.hits < 2:
            await _moment()
    here.proxy.disarm()

    await here.converges({"hello": "둘"})
    assert here.operator.exits == []


@essential
async def test_a_stale_api_server_has_nothing_deleted(here: World) -> None:
    """A restarted operator is answered from the past: the edit and its child have not happened."""
    await here.start()
    await here.create("하나")
    await here.create("그대로", "other")
    await here.converges({"hello": "하나", "other": "그대로"}, quiet=0.1)
    past: dict[str, bytes] = {}
    for path in (here.objects, here.children):
        past[path] = json.dumps(await here.cluster.ask("GET", path)).encode()
    await here.edit("둘")
    await here.converges({"hello": "둘", "other": "그대로"}, quiet=0.1)
    right = await here.cluster.ask("GET", here.child())

    # Its view of the objects is from the past, that of their children is not: the worst mixture.
    stale = here.proxy.arm(lambda call: call.path == here.objects, _from(past), 6)
    here.operator.send(Signals.SIGKILL)
    async with here.within(60, "it was answered from the past"):
        while stale.hits < 2:
            await _moment()

    await here.converges({"hello": "둘", "other": "그대로"})
    assert (await here.cluster.ask("GET", here.child()))["metadata"]["uid"] == right["metadata"][
        "uid"
    ]


def _from(past: dict[str, bytes]) -> calls.Fault:
    async def fault(call: Call, forward: Forward) -> Answer:
        if call.watch or call.path not in past:
            return Answer(200, b"", {"Content-Type": "application/json"})
        return Answer(200, past[call.path], {"Content-Type": "application/json"})

    return fault


async def test_lists_and_watches_are_refused_for_a_while(here: World) -> None:
    def refuse(front: calls.Proxy) -> None:
        for status, reason in ((500, "InternalError"), (429, "TooManyRequests")):
            front.arm(
                lambda call: call.path in (here.objects, here.children) and not call.writes,
                calls.refuse(status, reason, 1),
                4,
            )

    await here.create("하나")
    await here.start(harm=refuse)

    await here.converges({"hello": "하나"})


async def test_a_token_that_is_refused_is_found_anew(here: World) -> None:
    await here.start()
    refused = here.proxy.arm(lambda call: call.writes, calls.refuse(401, "Unauthorized"), 2)

    await here.create("하나")

    await here.converges({"hello": "하나"})
    assert refused.hits == 2
    assert here.operator.exits == []


async def _moment() -> None:
    await asyncio.sleep(0.05)
