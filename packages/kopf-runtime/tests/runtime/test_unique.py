"""A unique value has one holder, which keeps it (A2): by cases, and by walks over two namespaces.

In a walk, users create, edit, pause and delete objects, lose their status, unselect namespaces, and
reach quotas. Two replicas take over from one another, are restarted and killed; requests, answers
and events come late or never. All of it is in virtual time, against the storage of the tests' API
server. The judge looks at each write: at most one object serves a value, and no tie, restart or
edit of another one moves it; in the end, a loser without children holds nothing. RUNS and SEED
choose more of them, and PYTHONHASHSEED=0 repeats one exactly.
"""

import asyncio
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pytest

import kopf_runtime as kr
from kopf_runtime.cluster import fence
from kopf_runtime.cluster.client import JSON, Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key
from kopf_runtime.declaring.records import Fate
from runtime import widgets
from runtime.support.api_server import _PATH, ApiServer, RefusedError
from runtime.support.running import NAME, at_work, caches, leading, operating
from runtime.support.store import NAMESPACE, Stored
from runtime.support.waiting import VirtualLoop, until
from runtime.widgets import GENERATION, UID, WIDGET, Raw, edit, ready, widget

SECOND, OLDER = "2026-01-01T00:00:01Z", "2025-01-01T00:00:00Z"


def controller(on_taken: Fate = kr.RETAIN, **owns: Any) -> Controller:
    """Return a controller of Widgets, no two of which may have the same text."""
    one = widgets.controller(**owns)
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


async def test_a2_who_finds_its_retained_child_has_the_value_again(server: ApiServer) -> None:
    """As after a restore by Velero: the objects have new uids, and no status."""
    one = controller(deletion_policy=kr.RETAIN)
    key = put(server, "one", "a")
    async with operating(server, one):
        await until(lambda: has(server, key))
    server.remove(WIDGET, key)
    older, key = put(server, "older", "a", "another"), put(server, "one", "a", uid="restored")
    async with operating(server, one):
        await until(lambda: reason(server, older) == "TextTaken" and recorded(server, key))
    assert not has(server, older)


@pytest.mark.parametrize("referring", [True, False])
async def test_a2_a_forged_child_wins_no_value(server: ApiServer, *, referring: bool) -> None:
    """A tenant may write any mark and owner reference, but not in the operator's name."""
    one = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: has(server, one))
        older = put(server, "older", "a", "another")
        younger = put(server, "younger", "a", "b", creationTimestamp="2026-01-02T00:00:00Z")
        forged: Raw = server.get(CONFIG_MAP, ("ns", "w-one")) or {}
        uid = (server.get(WIDGET, younger) or {})["metadata"]["uid"]
        meta = forged["metadata"]
        [reference] = meta.pop("ownerReferences")
        if referring:
            meta["ownerReferences"] = [{**reference, "name": "younger", "uid": uid}]
        meta["annotations"]["example.dev/widget-name"] = "younger"
        for name in ("uid", "resourceVersion"):
            del meta[name]
        meta.update(namespace="b", name="any", labels={**meta["labels"], UID: uid})
        server.put(CONFIG_MAP, forged)
        await until(lambda: reason(server, younger) == reason(server, older) == "TextTaken")
        server.delete(WIDGET, one)
        await until(lambda: has(server, older) or has(server, younger))
        assert (has(server, older), has(server, younger)) == ("a", "")


async def test_a2_nothing_is_made_before_the_record_is_kept(server: ApiServer) -> None:
    refused = server.refuse("PATCH", "/widgets/one/status$", RefusedError(403, "Forbidden"), 3)
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: len(refused) == 3 or has(server, key))
        assert not has(server, key)
        await until(lambda: has(server, key))


async def test_a2_a_record_that_the_api_server_does_not_keep_is_told(server: ApiServer) -> None:
    """As with the CRD of a release before the declaration, or a webhook that changes a status."""

    def drop(kind: kr.Kind, raw: Raw) -> None:
        if kind == WIDGET:
            raw["status"].pop("holds", None)

    server.admission = drop
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: reason(server, key) == "HoldsLost")
        assert not has(server, key)
        server.admission = lambda *_: None
        server.edit(WIDGET, key, edit("b"))
        await until(lambda: has(server, key) == "b")


async def test_a2_an_object_that_cannot_be_read_keeps_its_value(server: ApiServer) -> None:
    key = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: recorded(server, key))
        server.edit(WIDGET, key, lambda raw: raw["spec"].update(text=1))
        other = put(server, "other", "a")
        await until(lambda: reason(server, other) == "TextTaken")
        server.delete(WIDGET, key)
        await until(lambda: has(server, other))


async def test_a2_a_value_that_was_given_up_is_free_though_it_is_wanted_again(
    server: ApiServer,
) -> None:
    put(server, "first", "x")
    one = put(server, "one", "y")
    async with operating(server, values_of(kr.RETAIN)):
        await until(lambda: has(server, ("ns", "first")) == "x" and has(server, one) == "y")
        held = list[Any]()

        async def note(request: Any) -> None:
            if request.method == "PATCH" and request.path.endswith("/one/status"):
                held.append((await request.json())["status"].get("holds"))

        server.answers.append(note)
        server.edit(WIDGET, one, edit("z"))
        await until(lambda: recorded(server, one) == ["z"] and has(server, one) == "z")
        assert {"text": []} not in held
        server.edit(WIDGET, one, edit("x y"))
        await until(lambda: reason(server, one) == "TextTaken")
        other = put(server, "other", "y")
        await until(lambda: has(server, other) == "y")


async def test_a2_no_child_goes_for_a_holder_that_is_gone_unseen(server: ApiServer) -> None:
    first, one = put(server, "first", "x"), put(server, "one", "y")
    async with operating(server, values_of(kr.DELETE)):
        await until(lambda: has(server, first) == "x" and has(server, one) == "y")
        server.mute = True
        server.remove(WIDGET, first)
        server.mute = False
        server.edit(WIDGET, one, edit("x"))
        await until(lambda: has(server, one) == "x")
    assert not any(write.startswith("DELETE") for write in server.writes)


def select(server: ApiServer, **words: str) -> None:
    """Have these namespaces selected, or not."""
    for space, word in words.items():
        server.put(NAMESPACE, {"metadata": {"name": space, "labels": {"in": word}}})


SELECTING = kr.Settings(namespace_selector="in=yes")


async def test_a2_a_free_value_goes_to_the_oldest_that_is_served(server: ApiServer) -> None:
    select(server, a="yes", b="yes", c="no")
    put(server, "oldest", "x", "c", creationTimestamp="2024-01-01T00:00:00Z")
    younger, older = (
        put(server, "one", "x", "a"),
        put(server, "two", "x", "b", creationTimestamp=OLDER),
    )
    async with operating(server, controller(), settings=SELECTING):
        await until(lambda: has(server, older) and reason(server, younger) == "TextTaken")


async def test_a2_a_free_value_goes_to_who_has_children_already(server: ApiServer) -> None:
    holder, one = put(server, "holder", "x"), put(server, "one", "y")
    async with operating(server, controller()):
        await until(lambda: has(server, holder) == "x" and has(server, one) == "y")
        server.edit(WIDGET, one, edit("x"))
        older = put(server, "older", "x", creationTimestamp=OLDER)
        await until(lambda: reason(server, one) == reason(server, older) == "TextTaken")
        forged = {"holds": {"text": ["y", "x"]}}
        server.edit(WIDGET, one, lambda raw: raw["status"].update(forged), subresource="status")
        await until(lambda: recorded(server, one) == ["y"])
        server.delete(WIDGET, holder)
        await until(lambda: has(server, one) == "x" or has(server, older))
    assert (has(server, one), has(server, older)) == ("x", "")


async def test_a2_of_two_with_a_record_the_one_with_children_keeps_it(server: ApiServer) -> None:
    one = put(server, "one", "a")
    async with operating(server, controller()):
        await until(lambda: has(server, one) and recorded(server, one))
    older = put(server, "one", "a", "another", creationTimestamp=OLDER)
    held = {"holds": {"text": ["a"]}}
    server.edit(WIDGET, older, lambda raw: raw.update(status=held), subresource="status")
    async with operating(server, controller()):
        await until(lambda: reason(server, older) == "TextTaken" or has(server, older))
    assert (has(server, one), has(server, older)) == ("a", "")


async def test_a2_a_loser_without_children_keeps_nothing_from_others(server: ApiServer) -> None:
    first, one = put(server, "first", "x"), put(server, "one", "y")
    async with operating(server, values_of(kr.DELETE)):
        await until(lambda: has(server, first) == "x" and has(server, one) == "y")
        server.edit(WIDGET, one, edit("x y"))
        await until(lambda: reason(server, one) == "TextTaken" and not has(server, one))
        other = put(server, "other", "y")
        await until(lambda: has(server, other) == "y")


async def test_a2_who_is_being_deleted_keeps_its_value_without_a_record(server: ApiServer) -> None:
    one = put(server, "one", "x", finalizers=[HOLD])
    async with operating(server, controller()):
        await until(lambda: has(server, one) and recorded(server, one))
    server.edit(WIDGET, one, lambda raw: raw.update(status={}), subresource="status")
    server.delete(WIDGET, one)
    other = put(server, "other", "x")
    async with operating(server, controller()):
        await until(lambda: reason(server, other) == "TextTaken" or has(server, other))
    assert not has(server, other)


async def test_a2_who_leads_again_goes_by_what_another_replica_gave(server: ApiServer) -> None:
    select(server, a="yes", b="yes")
    older, one = (
        put(server, "older", "x", "a", creationTimestamp=OLDER),
        put(server, "one", "x", "b"),
    )
    refused = server.refuse("PATCH", "/older/status$", RefusedError(403, "Forbidden"), float("inf"))
    first = controller()
    async with operating(server, first, settings=SELECTING, working=False):
        async with leading(first):
            await until(lambda: refused)
        select(server, a="no")
        async with operating(server, controller(), settings=SELECTING):
            await until(lambda: has(server, one) and recorded(server, one))
        server.answers.clear()
        select(server, a="yes")
        async with leading(first):
            await until(lambda: reason(server, older) == "TextTaken" or has(server, older))
    assert (has(server, older), has(server, one)) == ("", "x")


@pytest.mark.parametrize("fate", [kr.DELETE, kr.RETAIN])
async def test_a2_a_value_is_kept_while_the_child_that_serves_it_is_there(
    server: ApiServer, fate: Fate
) -> None:
    first, one, child = put(server, "first", "x"), put(server, "one", "y"), ("ns", "w-one")
    async with operating(server, values_of(fate)):
        await until(lambda: has(server, first) == "x" and has(server, one) == "y")
        server.edit(CONFIG_MAP, child, lambda raw: raw["metadata"].update(finalizers=[HOLD]))
        paused = PAUSED if fate is kr.RETAIN else {}
        server.edit(WIDGET, one, lambda raw: raw["metadata"].update(annotations=paused))
        server.edit(WIDGET, one, edit("x"))
        other = put(server, "other", "y")
        await until(lambda: reason(server, one) == reason(server, other) == "TextTaken")
        await asyncio.sleep(0.3)
        assert recorded(server, one) == ["y"]
        assert "Would delete" not in str(server.get(WIDGET, one))
        if fate is kr.DELETE:
            server.remove(CONFIG_MAP, child)
            await until(lambda: has(server, other) == "y")


async def test_a2_an_edit_while_a_value_is_recorded_is_not_planned_before(
    server: ApiServer,
) -> None:
    one, edited, key = values_of(kr.RETAIN), list[bool](), ("ns", "one")

    async def answer(request: Any) -> Any:
        if edited or not request.path.endswith("/widgets/one/status"):
            return None
        edited.append(True)
        given = await server._serve(request)
        server.edit(WIDGET, key, edit("x"))
        await until(lambda: caches(one).owners.cache.get(key).generation == 2)  # type: ignore[union-attr]
        return given

    server.answers.append(answer)
    first = put(server, "first", "x")
    async with operating(server, one):
        await until(lambda: has(server, first))
        put(server, *key[1:], "y")
        await until(lambda: reason(server, key) == "TextTaken")
    assert edited
    assert not has(server, key)


async def test_a2_no_value_is_given_while_a_namespace_cannot_be_listed(server: ApiServer) -> None:
    """The holder may be in it."""
    both = kr.Settings(namespaces=("another", "ns"))
    older, key = put(server, "older", "a", "another"), ("ns", "one")
    async with operating(server, controller(), settings=both):
        await until(lambda: has(server, older) and recorded(server, older))
    unlisted = server.refuse(
        "GET", "/namespaces/another/widgets$", RefusedError(403, "Forbidden"), float("inf")
    )
    async with operating(server, controller(), settings=both):
        await until(lambda: unlisted)
        put(server, "one", "a")
        await asyncio.sleep(0.5)
        assert (has(server, key), recorded(server, key)) == ("", [])
        server.answers.clear()
        await until(lambda: reason(server, key) == "TextTaken")
    assert not has(server, key)


# --- walks --------------------------------------------------------------------------------------

SPACES, NAMES = ("a", "b"), ("one", "two", "three")
KEYS = [(space, name) for space in SPACES for name in NAMES]
TEXTS = ("x", "y", "z", "x y", "y z", "")
HOLD, PAUSED = "example.org/hold", {"example.dev/paused": "true"}


def served(raw: Raw | None) -> set[str]:
    """Return the values that a child serves."""
    return set((raw or {}).get("data", {}).get("text", "").split())


class Judged(ApiServer):
    """An API server that judges each change."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(WIDGET)
        self.fate, self.wrong = fate, dict[str, None]()
        self.rights: dict[str, str] = {}  # who may not lose a value, by its uid

    def tell(self, type_: str, kind: kr.Kind, key: Key, former: Stored | None) -> None:
        super().tell(type_, kind, key, former)
        gone = (kind, key) if type_ == "DELETED" else None
        widgets = {
            stored.raw["metadata"]["uid"]: stored.raw
            for (k, name), stored in self.objects.items()
            if k == WIDGET and (k, name) != gone
        }
        serving = defaultdict[str, set[str]](set)
        for (k, name), stored in self.objects.items():
            uid = owner(stored.raw) if k == CONFIG_MAP else ""
            if uid in widgets and (k, name) != gone:
                for value in served(stored.raw):
                    serving[value].add(uid)
            elif uid in widgets:
                self._judge_deletion(widgets[uid])
        for value in "xyz":
            self._judge(value, serving[value], widgets)

    def _judge(self, value: str, serving: set[str], widgets: dict[str, Raw]) -> None:
        if len(serving) > 1:
            self._tell(f"{value} is served by {names(widgets, serving)}")
        wanting = {uid for uid, raw in widgets.items() if value in raw["spec"]["text"].split()}
        holding = {uid for uid, raw in widgets.items() if value in recorded_in(raw)}
        claims = wanting & (serving | holding)
        held = self.rights.get(value, "")
        if held not in claims:  # it is gone, or has been edited
            first = serving & claims or claims
            self.rights.pop(value, None)
            self.rights.update(
                dict.fromkeys([value] if len(first) == 1 else [], min(first, default=""))
            )
        elif moved := serving - {held}:
            self._tell(f"{value} moved from {names(widgets, [held])} to {names(widgets, moved)}")

    def _judge_deletion(self, raw: Raw) -> None:
        uid, wanted = raw["metadata"]["uid"], raw["spec"]["text"].split()
        # News of an edit may be late; who wants nothing any more has only to get its child back.
        has_all = wanted and all(self.rights.get(value) == uid for value in wanted)
        if self.fate is kr.RETAIN or has_all:
            self._tell(f"the child of {names({uid: raw}, [uid])} is deleted")

    def _tell(self, text: str) -> None:
        self.wrong[text] = None


def owner(raw: Raw) -> str:
    """Return the uid of the owner of a child."""
    return "".join(one["uid"] for one in raw["metadata"].get("ownerReferences", ()))


def recorded_in(raw: Raw) -> list[str]:
    return list((raw.get("status") or {}).get("holds", {}).get("text", ()))


def names(widgets: dict[str, Raw], uids: Iterable[str]) -> str:
    metas = [(uid, widgets[uid]["metadata"]) for uid in sorted(uids)]
    return " and ".join(f"{meta['namespace']}/{meta['name']} ({uid})" for uid, meta in metas)


#: Seconds after which a request arrives at the latest, and its answer.
ARRIVES, ANSWERED = 4.0, 20.0


@dataclass
class _Request:
    """What the server reads of a request."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    headers: Mapping[str, str]
    data: bytes

    async def read(self) -> bytes:
        return self.data

    async def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class _Answer:
    """An answer as `http` gives it."""

    status: int
    body: bytes = b""
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None

    async def read(self, _: int | None = None) -> bytes:
        return self.body

    def chunks(self) -> AsyncGenerator[bytes, None]:
        assert self.stream is not None
        return self.stream


class Wire(Client):
    """Carries requests to the server without a network; `calm` ends its faults.

    A request and its answer may each be late or lost, and the server may refuse it. A request goes
    on when its sender gives up or ends.
    """

    def __init__(self, server: ApiServer, draw: random.Random) -> None:
        super().__init__(NAME, "1", 5.0, Metrics(NAME))
        self.server, self.draw, self.calm = server, draw, False
        self._sent = set[asyncio.Task[_Answer]]()

    async def _answer(
        self,
        method: str,
        path: str,
        query: str,
        data: bytes | None = None,
        content_type: str = JSON,
    ) -> Any:
        fence.check(method, path)
        agent = {"User-Agent": self.agent}
        asked = _Request(method, path, dict(parse_qsl(query)), content_type, agent, data or b"")
        if "watch" in asked.query:
            await asyncio.sleep(self._late(ARRIVES))
            return _Answer(200, stream=self._stream(asked))
        self._sent.add(sent := asyncio.ensure_future(self._carry(asked)))
        sent.add_done_callback(self._sent.discard)
        return await asyncio.shield(sent)

    def release(self, _: Any) -> None:
        """Do nothing: there is no connection."""

    def _late(self, most: float) -> float:
        slow = not self.calm and self.draw.random() < 0.2
        return self.draw.uniform(0, most if slow else 0.02)

    async def _carry(self, asked: Any) -> _Answer:
        fault = "" if self.calm else self.draw.choice([""] * 30 + ["lost", "unanswered", "refused"])
        await asyncio.sleep(self._late(ARRIVES))
        if fault == "lost":
            await asyncio.sleep(1000)
        if fault == "refused":
            error = RefusedError(self.draw.choice((403, 409, 429, 500)), "Drawn")
            answer: Any = error.response()
        else:
            answer = await self.server._answer(asked)
        await asyncio.sleep(1000 if fault == "unanswered" else self._late(ANSWERED))
        return _Answer(answer.status, answer.body)

    async def _stream(self, asked: _Request) -> AsyncGenerator[bytes, None]:
        match = _PATH.fullmatch(asked.path)
        assert match is not None
        named = match["group"] or "", match["plural"]
        (kind,) = (k for k in self.server.kinds if (k.group, k.plural) == named)
        with self.server.watched(kind, match["namespace"], asked.query) as queue:
            while (line := await queue.get()) is not None:
                await asyncio.sleep(self._late(ANSWERED))
                if self.calm or self.draw.random() > 0.02:
                    yield line


class Replica:
    """A replica of the operator; it stands by unless it leads."""

    def __init__(self, world: "World") -> None:
        self.world, self.leads = world, False
        self.wire = Wire(world.server, world.draw)
        self.wire.may_write = lambda: self.leads
        self.wire.calm = world.calm
        self._controller, self._stack = values_of(world.server.fate), AsyncExitStack()
        self._work: asyncio.Future[None] | None = None

    async def start(self) -> None:
        running = operating(
            self.wire, self._controller, settings=self.world.settings, working=False
        )
        await self._stack.enter_async_context(running)

    def lead(self) -> None:
        self.leads = True
        self._work = asyncio.ensure_future(at_work(self._controller).work())

    async def stop(self, *, stuck: float = 0.0) -> None:
        """Lead no more; the work goes on for some seconds, as the Lease may be lost unnoticed."""
        self.leads = False
        await asyncio.sleep(stuck)
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
            self._work = None

    async def end(self) -> None:
        await self.stop()
        await self._stack.aclose()


def values_of(fate: Fate) -> Controller:
    one = widgets.controller()
    one.unique("text", lambda thing: thing.spec.text.split(), on_taken=fate)
    return one


class World:
    """Two replicas, and the objects of two namespaces."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.calm = draw, False
        self.server = Judged(draw.choice((kr.RETAIN, kr.DELETE)))
        watches: Any = draw.choice(({}, {"namespaces": SPACES}, {"namespace_selector": "in=yes"}))
        self.settings = kr.Settings(resync_period=60.0, **watches)
        for space in SPACES:
            self.server.put(NAMESPACE, {"metadata": {"name": space, "labels": {"in": "yes"}}})
        self.replicas: list[Replica] = []

    async def live(self) -> list[str]:
        """Let all that is drawn happen, then wait until all is as it should be."""
        for _ in range(2):
            self.replicas.append(Replica(self))
            await self.replicas[-1].start()
        self.replicas[0].lead()
        for _ in range(self.draw.randint(10, 40)):
            for _ in range(self.draw.choice((1, 1, 2, 5))):
                self.use(self.draw.choice(KEYS))
            if self.draw.random() < 0.2:
                await self.take_over()
            await asyncio.sleep(self.draw.choice((0, 0, 0.01, 0.1, 1, 5, 30, 100)))
        self.recover()
        for _ in range(100):
            if not (stuck := self.unsettled()):
                break
            await asyncio.sleep(5)
        for replica in self.replicas:
            await replica.end()
        return [*self.server.wrong, *stuck]

    async def take_over(self) -> None:
        """Have the other replica lead: the Lease is released, or lost, or its holder is killed."""
        old, new = self.replicas
        match self.draw.choice(("released", "lost", "killed")):
            case "released":
                await old.stop()
                await asyncio.sleep(ARRIVES)
            case "lost":  # its last request may still arrive in the time that the Lease runs on
                await old.stop(stuck=ARRIVES)
            case "killed":
                await old.end()
                old = Replica(self)
                await old.start()
                await asyncio.sleep(15)
        self.replicas = [new, old]
        new.lead()

    def use(self, key: Key) -> None:
        """Do what a user does with an object."""
        server, draw = self.server, self.draw
        raw = server.get(WIDGET, key)
        if raw is None:
            text = draw.choice(TEXTS)
            put(server, key[1], text, key[0], creationTimestamp=draw.choice((SECOND, OLDER)))
            asyncio.get_running_loop().call_later(draw.uniform(0, ARRIVES), self.rival, text)
            return
        child = server.get(CONFIG_MAP, (key[0], f"w-{key[1]}")) or {"metadata": {}}
        made = child["metadata"].get("annotations", {}).get(GENERATION)
        # Until a lost status is recorded again, an edit frees the values, as the page says.
        lost = bool(served(child)) and not recorded_in(raw)
        match draw.choice("eeeeedddhpsncqq"):
            case "e" if not lost:
                server.edit(WIDGET, key, edit(draw.choice(TEXTS)))
            case "d" if not raw["metadata"].get("deletionTimestamp"):
                server.delete(WIDGET, key)
            case "h":
                self.hold(key, raw)
            case "p":
                paused = draw.choice((PAUSED, {}))
                server.edit(WIDGET, key, lambda raw: raw["metadata"].update(annotations=paused))
            case "s" if made == str(raw["metadata"]["generation"]):
                server.edit(WIDGET, key, lambda raw: raw.update(status={}), subresource="status")
            case "n":
                self.select(key[0], draw.choice(("yes", "no")))
            case "c":
                self.collect()
            case "q":  # a quota of its namespace that is full for some requests
                path = f"/namespaces/{key[0]}/configmaps/"
                server.refuse("PATCH", path, RefusedError(403, "Forbidden"), draw.choice((3, 30)))

    def rival(self, text: str) -> None:
        """Create an older object that wants the same, perhaps while its value is being given."""
        away = [key for key in KEYS if self.server.get(WIDGET, key) is None]
        if away and not self.calm and self.draw.random() < 0.5:
            space, name = self.draw.choice(away)
            put(self.server, name, text, space, creationTimestamp=OLDER)

    def hold(self, key: Key, raw: Raw) -> None:
        """Have somebody's finalizer hold an object, or no more."""
        meta = raw["metadata"]
        if not meta.get("finalizers") and not meta.get("deletionTimestamp"):
            self.server.edit(WIDGET, key, lambda raw: raw["metadata"].update(finalizers=[HOLD]))
        elif meta.get("deletionTimestamp"):
            self.server.remove(WIDGET, key)

    def select(self, space: str, word: str) -> None:
        labels = {"in": word}
        self.server.edit(NAMESPACE, ("", space), lambda raw: raw["metadata"].update(labels=labels))

    def collect(self) -> None:
        """Delete the children of objects that are gone, as the garbage collector does."""
        living = {raw["metadata"]["uid"] for raw in self.server.all(WIDGET)}
        for child in self.server.all(CONFIG_MAP):
            if owner(child) not in living:
                meta = child["metadata"]
                self.server.remove(CONFIG_MAP, (meta["namespace"], meta["name"]))

    def recover(self) -> None:
        """Let all be well from now on."""
        self.calm = True
        self.server.answers.clear()
        for replica in self.replicas:
            replica.wire.calm = True
        for space in SPACES:
            self.select(space, "yes")
        for key in KEYS:
            if (raw := self.server.get(WIDGET, key)) is None:
                continue
            if raw["metadata"].get("deletionTimestamp"):
                self.server.remove(WIDGET, key)
            else:
                self.server.edit(WIDGET, key, lambda raw: raw["metadata"].update(annotations={}))

    def unsettled(self) -> list[str]:
        """Return the objects that do not serve what they want, though nobody else has that."""
        self.collect()
        holders = {key: recorded(self.server, key) for key in KEYS}
        wrong = []
        for key in KEYS:
            if (raw := self.server.get(WIDGET, key)) is None:
                continue
            text, others = raw["spec"]["text"], [holders[other] for other in KEYS if other != key]
            child = self.server.get(CONFIG_MAP, (key[0], f"w-{key[1]}"))
            taken = any(value in values for values in others for value in text.split())
            if reason(self.server, key) == "TextTaken":
                kept = child is not None and self.server.fate is kr.RETAIN
                values = set(holders[key])
                well = taken and (served(child) <= values if kept else not (child or values))
            else:
                well = has(self.server, key) == text and set(holders[key]) == set(text.split())
                well = well and not taken and reason(self.server, key) == "Reconciled"
            if not well:
                wrong.append(
                    f"{key} wants {text}: {holders[key]}, {child}, {reason(self.server, key)}"
                )
        return wrong


def search(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            monkeypatch.setattr(time, "monotonic", runner.get_loop().time)
            random.seed(seed)
            wrong = runner.run(World(random.Random(seed)).live())  # noqa: S311
        assert not wrong, f"seed {seed}: {wrong}"


def test_a2_no_walk_gives_a_value_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    start = int(os.environ.get("SEED", "0"))
    search(range(start, start + int(os.environ.get("RUNS", "40"))), monkeypatch)
