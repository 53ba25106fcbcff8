"""Searches for a history after which a cache does not have what etcd has.

Each case draws what happens: edits, deletions, restores of etcd from a backup; lists, watches,
single reads and writes whose answers come late, overtake one another, are stale, or never come. All
of it is in virtual time, against the storage of the tests' API server.
"""

import asyncio
import copy
import gc
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from msgspec import Raw
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key, Kind
from kopf_runtime.declaring.objects import UnreadableError, decode, note_empties
from kopf_runtime.declaring.records import Child, Plan, Step, Unreadable, Update
from kopf_runtime.reporting.troubles import StepError
from kopf_runtime.watching import cache, listing
from kopf_runtime.watching.source import Source
from runtime import widgets
from runtime.support.api_server import ApiServer, _selector
from runtime.support.running import NAME, at_work, build
from runtime.support.store import Change, Stored
from runtime.support.waiting import VirtualLoop, in_virtual_time
from runtime.widgets import UID, WIDGET, edit, widget

NAMES = ("one", "two", "three")
#: Seconds of virtual time between two resyncs, and the most that an answer takes.
PERIOD, LATEST = 60.0, 20.0


class Wire:
    """Carries requests to a server and answers from it, each as late as it is drawn."""

    manager = user = NAME

    def __init__(self, draw: random.Random) -> None:
        self.server, self.draw = ApiServer(WIDGET), draw
        self.oldest, self.restores, self.calm = 0, 0, False
        self._past: list[tuple[dict[Any, Stored], int]] = []
        self._pages: dict[str, tuple[list[bytes], int]] = {}
        self._was_stale = False
        self.loss, self.lateness = draw.choice((0.03, 0.03, 0.4)), draw.choice((0.3, 0.3, 0.9))

    def now(self) -> float:
        return time.monotonic()

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> bytes:
        query = {name: text[0] for name, text in parse_qs(options.get("query", "")).items()}
        await self._delay()
        if "limit" in query and not self.calm and self.draw.random() < 0.03:
            raise ApiError(method, path, self.draw.choice((403, 404, 500)), "Drawn", "drawn")
        kind = WIDGET if "/widgets" in path else CONFIG_MAP
        try:
            if path == kind.path():
                return self._list(kind, query)
            return self._one(method, path, kind, path.rsplit("/", 1)[1], body)
        finally:
            await self._delay()

    def _one(self, method: str, path: str, kind: Kind, name: str, body: Any) -> bytes:
        stored = self.server.objects.get((kind, ("ns", name)))
        if stored is None:
            raise ApiError(method, path, 404, "NotFound", "")
        if method == "PATCH":
            if body["metadata"]["resourceVersion"] != stored.raw["metadata"]["resourceVersion"]:
                raise ApiError(method, path, 409, "Conflict", "")
            self.server.edit(kind, ("ns", name), lambda raw: raw.update(spec=body["spec"]))
        elif method == "DELETE":
            now, exactly = stored.raw["metadata"], body["preconditions"]
            if any(now[field] != value for field, value in exactly.items()):
                raise ApiError(method, path, 409, "Conflict", "")
            self.server.remove(kind, ("ns", name))
            return b'{"kind": "Status"}'
        return self.server.objects[kind, ("ns", name)].encode()

    def _list(self, kind: Kind, query: dict[str, str]) -> bytes:
        token, limit = query.get("continue", ""), int(query.get("limit", 500))
        if not token:
            objects, version = self.server.objects, self.server.version
            stale = self._past and not self.calm and not self._was_stale
            self._was_stale = bool(stale and self.draw.random() < 0.2)
            if self._was_stale:  # it is another API server that answers
                objects, version = self.draw.choice(self._past)
            wanted = _selector(query.get("labelSelector", ""))
            shown = [
                stored.encode()
                for (k, _), stored in objects.items()
                if k == kind and wanted(stored.raw["metadata"].get("labels") or {})
            ]
            self.draw.shuffle(shown)
            token = f"{len(self._pages)}:0"
            self._pages[token.split(":")[0]] = shown, version
        number, start = token.split(":")
        shown, version = self._pages[number]
        end = int(start) + limit
        more = f"{number}:{end}" if end < len(shown) else ""
        metadata = {"resourceVersion": str(version), "continue": more}
        items = [json.loads(text) for text in shown[int(start) : end]]
        return json.dumps({"metadata": metadata, "items": items}).encode()

    async def lines(self, path: str, query: str) -> AsyncIterator[bytes]:
        asked = {name: text[0] for name, text in parse_qs(query).items()}
        kind = WIDGET if "/widgets" in path else CONFIG_MAP
        since, wanted = int(asked["resourceVersion"]), _selector(asked.get("labelSelector", ""))
        await self._delay()
        if since < self.oldest:
            status = {"code": 410, "reason": "Expired", "message": "too old"}
            yield json.dumps({"type": "ERROR", "object": status}).encode()
            return

        def select(change: Change) -> bytes | None:
            now, before = wanted(change.labels), change.before and wanted(change.before)
            if change.kind != kind or change.version <= since or not (now or before):
                return None
            if not self.calm and self.draw.random() < self.loss:
                return None  # it gets lost
            type_ = change.type if now else "DELETED"
            return b'{"type":"%s","object":%s}\n' % (type_.encode(), change.text)

        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for change in self.server.history:
            if (line := select(change)) is not None:
                queue.put_nowait(line)
        self.server.watches[queue] = select
        try:
            while (line := await queue.get()) is not None:
                await self._delay()
                yield line
        finally:
            del self.server.watches[queue]

    async def _delay(self) -> None:
        late = not self.calm and self.draw.random() < self.lateness
        await asyncio.sleep(self.draw.uniform(0, LATEST / 2 if late else 0.02))

    # --- what is drawn ------------------------------------------------------------------------

    def remember(self) -> None:
        """Let a later list be answered with what is there now."""
        if not self.restores:
            self._past.append((copy.deepcopy(self.server.objects), self.server.version))

    def forget_past(self) -> None:
        """Answer no later list with what was there before."""
        self._past.clear()

    def restore(self, backup: Callable[[], None], *, plain: bool = False) -> None:
        """Restore etcd with or without raised versions, and perhaps after others have written."""
        backup()
        self.restores += 1
        self._past.clear()
        if plain:
            return
        if self.draw.random() < 0.4:
            self.server.version += 10**9
            self.oldest = self.server.version
        elif self.draw.random() < 0.7:
            self.server.version += self.draw.choice((1, 5, 50, 2000))
            if self.draw.random() < 0.5:  # an API server that has just started
                self.oldest = self.server.version


class World:
    """The two caches of a controller, and what they were told."""

    def __init__(self, draw: random.Random) -> None:
        self.wire = wire = Wire(draw)
        self.draw, self.server = draw, wire.server
        self.engine = widgets.controller()
        build(wire, Metrics(NAME), kr.Settings(), self.engine)  # type: ignore[arg-type]
        self.runtime = at_work(self.engine)
        known = self.runtime.caches
        children = known.children[CONFIG_MAP]
        self.sources: dict[Kind, Source[Any]] = {WIDGET: known.owners, CONFIG_MAP: children}
        self.told: dict[tuple[Kind, Key], Any] = {}
        self.skipped: dict[tuple[Kind, Key], Unreadable] = {}
        self.dead: set[str] = set()  # the uids of what is gone
        self.hidden: set[str] = set()  # the uids of what could not be read or selected for a while
        for source in self.sources.values():
            self._listen(source)
        self.backups: list[Callable[[], None]] = []

    def _listen(self, source: Source[Any]) -> None:
        changed = source._changed

        def listen(record: Any, former: Any) -> None:
            key = source.kind, (record or former).key
            assert former is None or self.told[key].uid == former.uid, "it was told otherwise"
            self._check(source.kind, record, former)
            if record is None:
                del self.told[key]
                if not self.resetting and former.uid not in self.hidden:
                    self.dead.add(former.uid)
            else:
                self.told[key] = record
            changed(record, former)

        def forget(namespace: str | None) -> None:
            self.resetting = True
            reset(namespace)
            self.resetting = False

        def skip(skipped: Unreadable) -> None:
            self.skipped[source.kind, skipped.key] = skipped
            leave(skipped)

        reset, leave, self.resetting = source.reset, source._skipped, False
        source._changed, source.reset = listen, forget  # type: ignore[method-assign]
        source._skipped = skip

    def _check(self, kind: Kind, record: Any, former: Any) -> None:
        """Check news as long as there is only one history."""
        if self.wire.restores or self.resetting:
            return
        known = record or former
        stored = self.server.objects.get((kind, known.key))
        uid = stored.raw["metadata"]["uid"] if stored is not None else ""
        if record is None:
            assert uid != former.uid or uid in self.hidden, f"{known.key} was dropped"
            now = stored.raw["metadata"]["resourceVersion"] if stored is not None else ""
            assert uid != former.uid or now != str(former.version), f"{known.key} is as it was"
            return
        assert uid == record.uid or record.uid not in self.dead, f"{known.key} has come back"
        assert former is None or former.version <= record.version, f"{known.key} went back"

    def reflect(self) -> list[Any]:
        return [
            source.reflect(None, PERIOD, lambda _: None, lambda: False).run()
            for source in self.sources.values()
        ]

    def act(self) -> None:
        """Do what is drawn next."""
        kind, key = self.draw.choice((WIDGET, CONFIG_MAP)), ("ns", self.draw.choice(NAMES))
        if self.draw.random() < 0.55:
            self.change(kind, key)
        elif self.draw.random() < 0.5:
            self.ask(self.sources[kind], key)
        else:
            self.keep(self.sources[kind], key)

    def change(self, kind: Kind, key: Key) -> None:
        """Create an object, or change or delete it."""
        there = (kind, key) in self.server.objects
        match self.draw.choice("eeedlu"):
            case _ if not there:
                self.create(kind, key)
            case "d":
                self.server.remove(kind, key)
            case "u" if kind is WIDGET:  # it cannot be read then
                held = {"holds": {"host": [str(self.draw.randrange(3))]}}
                wrong = {"spec": {"text": self.draw.choice((5, []))}, "status": held}
                raw = self.server.edit(kind, key, lambda raw: raw.update(wrong))
                self.hidden.add(raw["metadata"]["uid"])
            case "l" if kind is CONFIG_MAP:
                raw = self.server.edit(kind, key, _relabel)
                self.hidden.add(raw["metadata"]["uid"])
            case _ if kind is WIDGET:
                self.server.edit(kind, key, edit(str(self.draw.randrange(5))))
            case _:
                self.server.edit(kind, key, lambda raw: raw.update(data={"text": "other"}))

    def ask(self, source: Source[Any], key: Key) -> None:
        """Read or change an object as the operator does."""
        known = source.cache.get(key)
        if source.kind is WIDGET and known is not None and self.draw.random() < 0.2:
            changes = {"spec": {"text": str(self.draw.randrange(5))}}
            self._ask(source.patch(key, str(known.version), changes))
        elif source.kind is CONFIG_MAP and known is not None and self.draw.random() < 0.3:
            self._ask(self._delete(source, known))
        else:
            self._ask(self._fetch(source, key))

    def keep(self, source: Source[Any], key: Key) -> None:
        """Make a backup or restore one, write other kinds, or keep a past for a stale list."""
        match self.draw.choice("bbrrrnnppo"):
            case "b":
                self.backups.append(self.server.snapshot())
            case "r" if self.backups:
                self.wire.restore(self.backups.pop())
                for name in filter(lambda _: self.draw.random() < 0.5, NAMES):
                    self.change(WIDGET, ("ns", name))
                self._ask(self._fetch(source, key))
            case "n":
                self.server.version += self.draw.choice((1, 3, 100))
            case "p":
                self.wire.remember()
            case "o":
                self._ask(self._overwrite(source, key))

    def create(self, kind: Kind, key: Key) -> None:
        raw = widget(key[1], text=str(self.draw.randrange(5)))
        if kind is CONFIG_MAP:
            labels = {"app.kubernetes.io/managed-by": NAME, UID: "u"}
            meta = {"labels": labels, "ownerReferences": [widgets.reference("u")]}
            raw = {"metadata": raw["metadata"] | meta, "data": {"text": "x"}}
        self.server.put(kind, raw)

    async def _overwrite(self, source: Source[Any], key: Key) -> None:
        """Lose a change by a restore, then make another one of the same version."""
        backup = self.server.snapshot()
        self.change(source.kind, key)
        await asyncio.sleep(self.draw.choice((0.03, 1, 30)))
        if self.wire.calm:
            return
        self.wire.restore(backup, plain=self.draw.random() < 0.5)
        self.change(source.kind, key)
        await self._fetch(source, key)

    async def _delete(self, source: Source[Any], child: Child) -> None:
        """Delete a child: who does so knows it, so it is not told."""
        owner = next(iter(self.sources[WIDGET].cache), None)
        update = self.draw.choice((Update.RECREATE, Update.APPLY))
        deleting = self.runtime._applier.delete
        if owner is None:
            return
        with suppress(StepError):
            await deleting(owner, child, Plan(Step.DELETE, why="it is drawn"), update)
        place = source.kind, child.key
        if source.cache.get(child.key) is None and place in self.told:
            assert self.told.pop(place).uid == child.uid
            self.dead.add(child.uid)
        # A list that is asked for now and is older than that would look like a restore.
        self.wire.forget_past()

    async def _fetch(self, source: Source[Any], key: Key) -> None:
        """Read an object: the cache has it then as it is, unless something came meanwhile."""
        stored, before = self.server.objects.get((source.kind, key)), source.cache.get(key)
        version = stored.raw["metadata"]["resourceVersion"] if stored is not None else ""
        try:
            if await source.fetch(key) is None:
                self.wire.forget_past()
        except UnreadableError as error:
            source.skip(error)
            return
        now, cached = self.server.objects.get((source.kind, key)), source.cache.get(key)
        unchanged = now is stored and now and now.raw["metadata"]["resourceVersion"] == version
        if unchanged and cached is before and cached is not None and _watched(stored):
            assert str(cached.version) == version, f"a look at {key} was no use"

    def _ask(self, asking: Any) -> None:
        async def ask() -> None:
            with suppress(ApiError):
                await asking

        self.tasks.append(asyncio.ensure_future(ask()))

    async def live(self) -> None:
        """Let all that is drawn happen, then wait at rest until all has been listed again."""
        self.tasks: list[Any] = []
        reflecting = [asyncio.ensure_future(task) for task in self.reflect()]
        for name in NAMES[:2]:
            self.create(WIDGET, ("ns", name))
        for _ in range(self.draw.randint(5, 40)):
            self.act()
            await asyncio.sleep(self.draw.choice((0, 0, 0.01, 0.1, 1, 10, 100)))
        self.wire.calm = True
        self.server.version += 10**11  # others write, until it is past all that was ever known
        await asyncio.sleep(LATEST + 2.5 * PERIOD)
        for task in (*self.tasks, *reflecting):
            task.cancel()
        ended = await asyncio.gather(*self.tasks, *reflecting, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        self.compare()

    def compare(self) -> None:
        """Compare the caches with the store, and with what was told of them."""
        for kind, source in self.sources.items():
            there, unreadable = {}, set()
            for (k, key), stored in self.server.objects.items():
                if k == kind and _watched(stored):
                    try:
                        thing = decode(source._decoder, stored.encode())
                        note_empties(thing, stored.encode())
                        there[key] = source._read(thing, None)
                    except UnreadableError:
                        unreadable.add(key)
            assert {record.key: record for record in source.cache} == there
            assert {key: r for (k, key), r in self.told.items() if k == kind} == there
            skipped = {record.key: record for record in source.unreadable}
            assert skipped.keys() == unreadable
            for key, record in skipped.items():
                assert replace(self.skipped[kind, key], version=record.version) == record


def _watched(stored: Stored | None) -> bool:
    labels = stored.raw["metadata"].get("labels") if stored is not None else None
    return labels is None or UID in labels


def _relabel(raw: dict[str, Any]) -> None:
    labels = raw["metadata"]["labels"]
    labels.pop(UID) if UID in labels else labels.update({UID: "u"})


def search(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(cache, "LATE", LATEST + 1)
    for seed in seeds:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            monkeypatch.setattr(time, "monotonic", loop.time)
            random.seed(seed)
            try:
                runner.run(World(random.Random(seed)).live())  # noqa: S311
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise


def test_c1_t3_a_cache_has_what_etcd_has_by_any_history(monkeypatch: pytest.MonkeyPatch) -> None:
    # In the last one, a watch opens again behind a resync, when deletions before it are forgotten.
    search([*range(300), 166703532], monkeypatch)


@pytest.mark.parametrize("texts", [("a", "b"), ("a", 5), (5, "a"), (5, [])])
def test_c1_other_content_of_one_version_is_told(texts: tuple[Any, Any]) -> None:
    world, raw = World(random.Random(0)), widget()  # noqa: S311
    raw["metadata"].update(uid="u", resourceVersion="5")
    source, place = world.sources[WIDGET], (WIDGET, ("ns", "one"))
    for text in texts:
        source.take(Raw(json.dumps({**raw, "spec": {"text": text}}).encode()))

    skipped = source.unreadable.get(place[1])
    assert world.told.get(place) == source.cache.get(place[1])
    assert skipped is None or world.skipped[place] == skipped
    assert (skipped is None) is isinstance(texts[1], str)


def test_c1_what_an_unreadable_object_holds_is_told() -> None:
    world, raw = World(random.Random(0)), widget()  # noqa: S311
    for version, host in (("5", "a"), ("6", "b")):
        raw["metadata"].update(uid="u", resourceVersion=version)
        raw.update(spec={"text": 5}, status={"holds": {"host": [host]}})
        world.sources[WIDGET].take(Raw(json.dumps(raw).encode()))
        assert world.skipped[WIDGET, ("ns", "one")].holds("host") == (host,)


@pytest.mark.parametrize("seed", range(50))
def test_c1_what_comes_late_takes_nothing_back(seed: int) -> None:
    """A list's pages show what was there when it began; a mended object may have come since."""
    draw = random.Random(seed)  # noqa: S311
    world, raw, newest, there = World(draw), widget(), 0, False
    world.wire.restores, source = 1, world.sources[WIDGET]  # so news is not compared with etcd
    for version in draw.sample(range(1, 50), 12):
        text = draw.choice(("a", "b", 5, "deleted", "missing"))
        raw["metadata"].update(uid="u", resourceVersion=str(version))
        event = Raw(json.dumps({**raw, "spec": {"text": text}}).encode())
        if text == "missing":
            source.replace({}, version, None)
        else:
            (source.gone if text == "deleted" else source.take)(event)
        if version > newest and (there or text != "missing"):
            newest, there = version, text not in ("deleted", "missing")
        known = [*source.cache, *source.unreadable]
        assert [record.version for record in known] == ([newest] if there else [])


@in_virtual_time
async def test_d2_a_look_says_whether_anything_was_newer_and_what() -> None:
    world = World(random.Random(0))  # noqa: S311
    world.wire.calm, source, key = True, world.sources[CONFIG_MAP], ("ns", "one")
    source.reflect(None, PERIOD, lambda _: None, lambda: False)
    owner: Any = SimpleNamespace(uid="u", key=("", "w"))

    def change(change: Callable[[Any], object]) -> Callable[[], object]:
        return lambda: world.server.edit(CONFIG_MAP, key, change)

    for news in (
        lambda: world.create(CONFIG_MAP, key),
        change(lambda raw: raw.update(data={"text": "other"})),
        change(lambda raw: raw["metadata"]["labels"].update({UID: "x"})),
        lambda: world.create(CONFIG_MAP, ("ns", "two")),
        lambda: world.server.remove(CONFIG_MAP, key),
    ):
        news()
        assert not await source.is_current(owner, UID)
        world.compare()
        assert await source.is_current(owner, UID)


@pytest.mark.long
def test_c1_t3_many_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    start = random.SystemRandom().randrange(10**9)
    print(f"seeds from {start}")  # noqa: T201
    search(range(start, start + 5000), monkeypatch)
