"""A unique value has one holder, which keeps it (A2): by cases, and by walks over two namespaces.

The walks create, edit, delete, pause and forge, end the operator after any write or at any moment,
and hold one invariant: at most one living object has a child of a value, and the holder of a value
changes only when it gave the value up or is gone. RUNS and SEED choose more of them.
"""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key
from kopf_runtime.declaring.records import Fate
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget

SECOND = "2026-01-01T00:00:01Z"
TAKEN = "Another Widget has the text"


def controller(on_taken: Fate = kr.RETAIN) -> Controller:
    """Return a controller of Widgets, no two of which may have the same text."""
    one = widgets.controller()
    one.unique(
        "text", lambda thing: [thing.spec.text] if thing.spec.text else [], on_taken=on_taken
    )
    return one


def put(server: ApiServer, name: str, text: str, namespace: str = "ns", **meta: Any) -> Key:
    """Store a Widget of the same second as all others."""
    server.put(WIDGET, widget(name, namespace, text, **{"creationTimestamp": SECOND, **meta}))
    return namespace, name


def has(server: ApiServer, key: Key) -> str:
    """Return the text in the child of a Widget."""
    child = server.get(CONFIG_MAP, (key[0], f"w-{key[1]}"))
    return str((child or {}).get("data", {}).get("text", ""))


def reason(server: ApiServer, key: Key) -> Any:
    return ready(server.get(WIDGET, key)).get("reason")


def recorded(server: ApiServer, key: Key) -> list[str]:
    status: Raw = (server.get(WIDGET, key) or {}).get("status") or {}
    return list(status.get("holds", {}).get("text", ()))


async def test_a2_of_two_made_in_one_second_one_has_the_value_and_keeps_it(
    server: ApiServer,
) -> None:
    """The one that sorts first is seen second, as by `kubectl create -f`."""
    late = put(server, "late", "a.example")
    async with operating(server, controller()):
        await until(lambda: has(server, late) and recorded(server, late) == ["a.example"])
        early = put(server, "early", "a.example", "another")
        await until(lambda: reason(server, early) == "TextTaken")
        assert TAKEN in ready(server.get(WIDGET, early))["message"]
    async with operating(server, controller()):  # a restart
        server.edit(WIDGET, late, lambda raw: raw["metadata"].update(labels={"a": "b"}))
        await asyncio.sleep(0.3)
        assert (has(server, late), has(server, early)) == ("a.example", "")

        server.delete(WIDGET, late)
        await until(lambda: has(server, early) == "a.example")


@pytest.mark.parametrize("on_taken", [kr.RETAIN, kr.DELETE])
async def test_a2_an_older_object_takes_no_value_by_an_edit(
    server: ApiServer, on_taken: Fate
) -> None:
    older = put(server, "attacker", "b", "b", creationTimestamp="2025-01-01T00:00:00Z")
    bank = put(server, "bank", "a", "a")
    async with operating(server, controller(on_taken)):
        await until(lambda: has(server, bank) and has(server, older))
        server.edit(WIDGET, older, edit("a"))
        await until(lambda: reason(server, older) == "TextTaken")
        other = put(server, "other", "b", "c")
        if on_taken is kr.DELETE:  # its children and its former value are gone
            await until(lambda: (has(server, older), has(server, other)) == ("", "b"))
        else:
            await until(lambda: reason(server, other) == "TextTaken")
            assert (has(server, older), recorded(server, older)) == ("b", ["b"])
        server.edit(WIDGET, bank, edit("a2"))
        await until(lambda: has(server, bank) == "a2" and has(server, older) == "a")
        await until(lambda: has(server, other) == "b")


async def test_a2_after_a_restore_without_status_who_has_children_keeps_the_value(
    server: ApiServer,
) -> None:
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: has(server, key))
    server.edit(WIDGET, key, lambda raw: raw.update(status={}), subresource="status")
    older = put(server, "older", "a", creationTimestamp="2025-01-01T00:00:00Z")
    async with operating(server, controller()):
        await until(lambda: reason(server, older) == "TextTaken" and recorded(server, key))
    assert has(server, older) == ""


async def test_a2_nothing_is_made_before_the_api_server_has_kept_the_record(
    server: ApiServer,
) -> None:
    refused = server.refuse("PATCH", "/widgets/one/status$", RefusedError(403, "Forbidden"), 3)
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: len(refused) == 3 or has(server, key))
        assert not has(server, key)
        await until(lambda: has(server, key))


async def test_a2_an_object_that_cannot_be_read_any_more_keeps_its_value(
    server: ApiServer,
) -> None:
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: recorded(server, key))
        server.edit(WIDGET, key, lambda raw: raw["spec"].update(text=1))
        other = put(server, "other", "a")
        await until(lambda: reason(server, other) == "TextTaken")
        server.delete(WIDGET, key)
        await until(lambda: has(server, other))


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda c: c.unique("Host", str), "'Host' cannot name what is unique"),
        (lambda c: c.unique("host", "host"), r"unique\('host'\): use a function"),
        (lambda c: c.unique("host", str, on_taken=kr.ORPHAN), "on_taken=.*: use kr.DELETE or"),
        (lambda c: [c.unique("host", str) for _ in "ab"], "declared twice for Widget"),
    ],
)
def test_a_declaration_of_what_is_unique_that_cannot_be_meant_is_refused(
    declare: Any, why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        declare(Controller(WIDGET, Widget, lambda _: None))


# --- walks --------------------------------------------------------------------------------------

SPACES, NAMES, TEXTS = ("a", "b"), ("one", "two", "three"), ("x", "y", "z", "")


class Judge:
    """Checks after each write which living objects have children of a value."""

    def __init__(self, server: ApiServer) -> None:
        self.server, self.wrong = server, list[str]()
        self.holders: dict[str, str] = {}  # the uid of who had a child of a value last

    def look(self) -> None:
        """Compare what is stored with what was."""
        found = defaultdict(set)
        alive: dict[str, Raw] = {}
        for space in SPACES:
            for name in NAMES:
                raw = self.server.get(WIDGET, (space, name))
                child = self.server.get(CONFIG_MAP, (space, f"w-{name}"))
                if raw is None:
                    continue
                uid = raw["metadata"]["uid"]
                alive[uid] = raw
                owners = (child or {}).get("metadata", {}).get("ownerReferences", [{}])
                if child is not None and child["data"]["text"] and owners[0].get("uid") == uid:
                    found[child["data"]["text"]].add(uid)
        for text, uids in found.items():
            if len(uids) > 1:
                self.wrong.append(f"{len(uids)} objects have children of {text}")
            before, uid = self.holders.get(text, ""), min(uids)
            wants = before in alive and alive[before]["spec"]["text"] == text
            if before != uid and wants and self.kept.get(before) == text:
                self.wrong.append(f"{text} moved from {before} to {uid}")
            self.holders[text] = uid
        # Who has a child of what it wants has not given the value up.
        self.kept = {
            uid: text
            for text, uids in found.items()
            for uid in uids
            if alive[uid]["spec"]["text"] == text
        }

    kept: dict[str, str] = {}  # noqa: RUF012 (it is replaced)


async def walk(seed: int, steps: int = 25) -> list[str]:
    """Take a walk; return what was wrong."""
    chance = random.Random(seed)  # noqa: S311
    fate = chance.choice([kr.RETAIN, kr.DELETE])
    async with ApiServer(WIDGET).running() as server:
        judge = Judge(server)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(operating(server, controller(fate)))
            for _ in range(steps):
                step(server, chance)
                judge.look()
                if chance.random() < 0.2:  # it ends after one of its next writes
                    before, more = len(server.writes), chance.randrange(4)
                    try:
                        async with asyncio.timeout(0.3):
                            while len(server.writes) < before + more:
                                await asyncio.sleep(0)
                                judge.look()
                    except TimeoutError:
                        pass
                    await stack.aclose()
                    judge.look()
                    await stack.enter_async_context(operating(server, controller(fate)))
                for _ in range(chance.choice([0, 3, 30])):
                    await asyncio.sleep(0.001)
                    judge.look()
            with suppress(TimeoutError):
                await until(lambda: settled(server), 20)
            judge.look()
            if not settled(server):
                judge.wrong += [f"stuck: {seen(server, key)}" for key in _keys()]
        return [f"seed {seed}: {wrong}" for wrong in dict.fromkeys(judge.wrong)]


def step(server: ApiServer, chance: random.Random) -> None:
    """Do what users do, to a random object."""
    if chance.random() < 0.5:
        collect(server)
    key = chance.choice(SPACES), chance.choice(NAMES)
    text = chance.choice(TEXTS)
    if server.get(WIDGET, key) is None:
        # With what nobody but the operator may write.
        put(server, key[1], text, key[0], labels={"holds": "x"}, annotations={"holds": "x"})
    elif chance.random() < 0.3:
        server.delete(WIDGET, key)
    else:
        server.edit(WIDGET, key, edit(text))


def collect(server: ApiServer) -> None:
    """Remove the children of objects that are gone, as the garbage collector does."""
    for space, name in _keys():
        child = server.get(CONFIG_MAP, (space, f"w-{name}"))
        owner: Raw = (server.get(WIDGET, (space, name)) or {}).get("metadata", {})
        if child is not None:
            (reference,) = child["metadata"]["ownerReferences"]
            if reference["uid"] != owner.get("uid"):
                server.remove(CONFIG_MAP, (space, f"w-{name}"))


def settled(server: ApiServer) -> bool:
    """Return whether each wanted value has a child, and all others are told why not."""
    collect(server)
    wanting = defaultdict(list)
    for key in ((space, name) for space in SPACES for name in NAMES):
        if (raw := server.get(WIDGET, key)) is not None:
            text = raw["spec"]["text"]
            wanting[text].append(has(server, key) == text and reason(server, key) == "Reconciled")
    blocked = {text for key in _keys() for text in recorded(server, key)}
    return all(
        sum(those) == 1 or (not text and all(those)) or (not sum(those) and text in blocked)
        for text, those in wanting.items()
    )


def seen(server: ApiServer, key: Key) -> str:
    """Return what is stored of an object."""
    raw = server.get(WIDGET, key) or {"spec": {}}
    told = (recorded(server, key), has(server, key), reason(server, key))
    return f"{'/'.join(key)} wants {raw['spec'].get('text')}: {told}"


def _keys() -> Iterable[Key]:
    return ((space, name) for space in SPACES for name in NAMES)


@pytest.mark.parametrize("number", range(int(os.environ.get("RUNS", "12"))))
async def test_a2_no_walk_gives_a_value_to_two(number: int) -> None:
    seed = int(os.environ.get("SEED", "0")) + number
    assert await walk(seed) == []
