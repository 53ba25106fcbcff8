import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Seen
from kopf_runtime.watching import cache as caches
from kopf_runtime.watching.availability import PATIENCE, Failures, State, Use, may
from kopf_runtime.watching.cache import Cache
from kopf_runtime.watching.reflector import Reflector
from kopf_runtime.watching.source import Source, Watched
from runtime.support.waiting import in_virtual_time
from runtime.test_histories import Wire


@dataclass(frozen=True)
class Thing:
    key: Key
    uid: str
    version: int
    controller_uid: str = ""


def thing(name: str, version: int, uid: str = "u", controller_uid: str = "") -> Thing:
    return Thing(("ns", name), uid, version, controller_uid)


@pytest.fixture
def cache() -> Cache[Thing]:
    return Cache()


def version(cache: Cache[Thing], name: str) -> int | None:
    record = cache.get(("ns", name))
    return record.version if record else None


def test_an_echo_of_what_is_known_is_no_news(cache: Cache[Thing]) -> None:
    cache.put(thing("a", 5))

    assert not cache.put(thing("a", 5))


def test_another_object_of_one_version_is_news(cache: Cache[Thing]) -> None:
    """After a restore of etcd, versions are used again."""
    cache.put(thing("a", 5, controller_uid="me"))

    assert cache.put(thing("a", 5, "new", controller_uid="you"))
    assert cache.owned("me") == []


def test_a_list_says_what_is_gone_of_its_namespace_and_of_its_version(cache: Cache[Thing]) -> None:
    cache.put(thing("a", 5))

    assert cache.replace({}, 10, "elsewhere") == []
    assert cache.replace({}, 4, "ns") == []
    assert cache.newest(("ns", "a")) == 5
    assert cache.replace({}, 5, "ns") == [thing("a", 5)]
    assert cache.newest(("ns", "a")) == 5
    assert not cache.put(thing("a", 5))
    assert not cache.put(thing("a", 4), at=4)
    assert cache.put(thing("a", 4), at=5)  # of a restored backup: it has never been deleted


def test_an_answer_that_was_asked_for_before_a_404_is_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, gone = 1000.0, caches.Gone()
    monkeypatch.setattr("time.monotonic", lambda: now)
    gone.add("")
    assert not gone.has("", 1.0)
    gone.add("u")
    assert [gone.has("u", asked) for asked in (999.0, 1000.0, 0.0)] == [True, False, True]
    now += caches.LATE
    assert not gone.has("u", 0.0)
    gone.add("v")
    assert gone.has("u", 999.0)
    now += 1
    gone.add("w")
    assert not gone.has("u", 999.0)  # no answer takes that long
    gone.clear()
    assert not gone.has("w", 999.0)


def test_of_the_answers_to_our_writes_the_newest_are_remembered() -> None:
    answers = caches.Answers()
    for number in range(caches.Answers._MOST + 1):
        answers.add(b"%d\n" % number, ("ns", "a"), number)
    assert answers.repeated(b"0") is None
    assert answers.repeated(b"1") == (("ns", "a"), 1)


@pytest.mark.parametrize("count", [1, caches.FEW, caches.FEW + 1, caches.FEW * 3])
def test_an_owner_has_its_objects_in_order_however_many(cache: Cache[Thing], count: int) -> None:
    names = [f"t{number}" for number in range(count)]
    for number, name in enumerate(names):
        cache.put(thing(name, number, controller_uid="me"))
    assert [record.key[1] for record in cache.owned("me")] == names

    cache.put(thing(names[0], count, controller_uid="you"))
    for name in names[1:-1]:
        cache.remove(("ns", name), count)
    assert [record.key[1] for record in cache.owned("me")] == names[1:][-1:]  # the last one

    cache.clear("ns")
    assert cache.owned("me") == cache.owned("you") == []


def test_cleared_is_as_if_never_seen(cache: Cache[Thing]) -> None:
    cache.put(thing("a", 5, controller_uid="me"))
    cache.remove(("ns", "b"), 7)

    assert cache.clear("elsewhere") == []
    assert [record.key for record in cache.clear("ns")] == [("ns", "a")]

    assert (len(cache), cache.owned("me")) == (0, [])
    assert cache.put(thing("b", 3))


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("minutes", [1, 2, 3])
def test_s8_the_dead_are_remembered_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, minutes: int, others: bool
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    cache = Cache[Thing]()
    cache.remove(("ns", "a"), 8)
    for _ in range(minutes):
        now += caches.LATE + 1
        if others:
            cache.remove(("ns", "other"), 9)

    assert cache.put(thing("a", 7)) is (minutes > 1)


def test_the_event_that_repeats_an_answer_is_not_read_again() -> None:
    read, news = list[int](), list[int | None]()

    def record(thing: Object, _: object) -> Seen:
        read.append(thing.metadata.version)
        return Seen(thing.metadata.key, thing.metadata.uid, thing.metadata.version, None)

    def event(version: int, more: str = "") -> msgspec.Raw:
        meta = f'"namespace":"ns","name":"one","uid":"u","resourceVersion":"{version}"{more}'
        return msgspec.Raw(b'{"metadata":{%s}}' % meta.encode())

    metrics = Metrics("test")
    client = Client("test", "", 10, metrics)
    source: Source[Seen] = Source(
        client,
        metrics,
        Watched(CONFIG_MAP),
        record,
        lambda new, _: news.append(new.version if new else None),
    )
    source.learn(bytes(event(5)) + b"\n")

    assert source.take(event(5)) == (("ns", "one"), 5, False)
    assert (read, news) == ([5], [5])
    source.take(event(5, ',"labels":{"a":"b"}'))  # of a restored etcd, for example
    source.take(event(6))
    assert (read[:3], news[-1]) == ([5, 5, 6], 6)

    source.learn(event(7))
    source.cache.clear(None)  # or it was not stored, as without the label of its owner's uid
    assert source.take(event(7)) == (("ns", "one"), 7, True)


# --- what is known of a kind in a namespace, and what may be done with it meanwhile ---------------


ORDER = (
    State.LISTING,
    State.RELISTING,
    State.SYNCED,
    State.FAILING,
    State.MISSING,
    State.UNKNOWN,
    State.ABSENT,
)


@pytest.fixture(autouse=True)
def _in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the patience be as long as it is, in virtual time."""
    monkeypatch.setattr("kopf_runtime.watching.availability.PATIENCE", PATIENCE)


@pytest.mark.parametrize(
    ("use", "allowed"),
    [
        (Use.SERVE, "--y----"),
        (Use.BESIDE, "--y-yyy"),
        (Use.CHANGE, "yyyy---"),
        (Use.SEE, "--y---y"),
        (Use.SEE_AT_END, "--y--yy"),
    ],
)
def test_c3_what_may_be_done_follows_from_one_value(use: Use, allowed: str) -> None:
    assert "".join("-y"[may(use, state)] for state in ORDER) == allowed
    assert may(use, State.RELISTING, again=True)


@pytest.mark.parametrize(
    ("statuses", "synced", "optional", "known", "state"),
    [
        ([500], False, False, False, State.FAILING),
        ([403], False, False, False, State.FAILING),
        ([404], False, False, False, State.FAILING),
        ([404], False, True, False, State.ABSENT),  # it was never there
        ([404], False, True, True, State.FAILING),
        ([500, 500], False, False, False, State.MISSING),
        ([403, 500], False, False, False, State.MISSING),
        ([404, 404], False, False, True, State.UNKNOWN),
        ([404, 404], False, True, True, State.ABSENT),
        ([403, 404], False, True, True, State.MISSING),
        ([500, 500], True, False, True, State.SYNCED),  # only the watch fails
        ([403], True, False, True, State.SYNCED),
        ([500, 403], True, False, True, State.SYNCED),
        ([401, 403], True, False, True, State.MISSING),
        ([404, 404], True, False, True, State.UNKNOWN),
    ],
)
def test_c4_only_what_fails_for_a_while_is_missing(
    statuses: list[int], synced: bool, optional: bool, known: bool, state: State
) -> None:
    """Between two statuses, the patience has passed."""
    failures, now = Failures(), 100.0
    for status in statuses:
        now += PATIENCE
        failures = failures.then(status, now)

    assert failures.state(now, synced=synced, optional=optional, known=known) is state


class Refusing(Wire):
    """Refuses lists and watches with a status, if any."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))  # noqa: S311
        self.calm, self.status, self.asked = True, 0, 0

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> bytes:
        self.asked += 1
        if self.status:
            raise ApiError(method, path, self.status, "Refused", "not now")
        return await super().request(method, path, body, **options)


def seen(thing: Object, _: object) -> Seen:
    return Seen(thing.metadata.key, thing.metadata.uid, thing.metadata.version, None)


def test_c2_all_namespaces_are_those_that_are_listed() -> None:
    metrics = Metrics("test")
    client = Client("test", "", 10, metrics)
    source: Source[Seen] = Source(client, metrics, Watched(CONFIG_MAP), seen, lambda *_: None)
    for namespace in ("a", "b"):
        source.reflect(namespace, 300.0, lambda _: None, lambda: False)

    assert (source._spaces(""), source._spaces("b")) == (["a", "b"], ["b"])
    for namespace, first in (("", "a"), ("b", "b")):
        why = f"/api/v1/namespaces/{first}/configmaps is being listed"
        assert source.why_unseen(namespace) == why


@contextmanager
def reflecting(wire: Refusing, *, optional: bool = False) -> Iterator[tuple[Reflector, list[bool]]]:
    """Run a reflector of ConfigMaps; note when it says that something has changed."""
    told: list[bool] = []
    source: Source[Seen] = Source(
        wire,  # type: ignore[arg-type]
        Metrics("test"),
        Watched(CONFIG_MAP, optional=optional),
        seen,
        lambda *_: None,
    )
    reflector = source.reflect(None, 300.0, told.append, lambda: False)
    task = asyncio.ensure_future(reflector.run())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", asyncio.get_running_loop().time)
        wire.server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "one"}})
        yield reflector, told
    assert not task.done()
    task.cancel()


def cached(reflector: Reflector) -> int:
    return len(reflector._sink.cache)  # type: ignore[attr-defined]


@in_virtual_time
async def test_c3_a_kind_that_need_not_be_there_costs_nothing_while_it_is_not() -> None:
    wire = Refusing()
    wire.status = 404
    with reflecting(wire, optional=True) as (reflector, told):
        await asyncio.sleep(1000)

        assert reflector.availability.state is State.ABSENT
        assert told == [False]
        assert wire.asked > 20
        wire.status = 0
        await asyncio.sleep(60)
        assert reflector.synced
        assert told == [False, False]


@pytest.mark.parametrize(
    ("status", "state", "left"),
    [(401, State.MISSING, 1), (403, State.MISSING, 1), (404, State.UNKNOWN, 0)],
)
def test_c4_s11_only_a_kind_that_is_unknown_for_a_while_empties_its_cache(
    status: int, state: State, left: int
) -> None:
    @in_virtual_time
    async def refused() -> None:
        wire = Refusing()
        with reflecting(wire) as (reflector, told):
            for seconds in (PATIENCE * 0.9, PATIENCE * 0.9, PATIENCE + 2):
                await asyncio.sleep(30)
                told.clear()
                wire.status = status
                wire.server.close_watches()
                await asyncio.sleep(seconds)
                if seconds > PATIENCE:
                    break
                assert reflector.synced  # one refusal of a watch changes nothing
                wire.server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "two"}})
                wire.status = 0
                await asyncio.sleep(60)
                assert False not in told
                assert cached(reflector) == 2
                wire.server.remove(CONFIG_MAP, ("ns", "two"))

            assert (reflector.availability.state, cached(reflector)) == (state, left)
            assert told == [False]

    refused()


@pytest.mark.parametrize("by", ["a watch", "a list"])
def test_an_older_etcd_shows_at_the_next_watch_however_long_none_was_answered(by: str) -> None:
    @in_virtual_time
    async def older() -> None:
        wire = Refusing()
        with reflecting(wire) as (reflector, _):
            await asyncio.sleep(1)
            restore, watches = wire.server.snapshot(), dict(wire.server.watches)
            if by == "a list":
                wire.server.watches.clear()
            wire.server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "two"}})
            wire.server.watches |= watches
            await asyncio.sleep(310)  # until the next resync
            assert cached(reflector) == 2
            wire.status = 500
            wire.server.close_watches()
            await asyncio.sleep(120)  # each pause is twice as long as the one before
            wire.status = 0
            restore()
            await asyncio.sleep(32)

            assert cached(reflector) == 1

    older()


@pytest.mark.parametrize("status", [0, 500])
def test_what_was_watched_for_long_is_watched_again_at_once_and_listed_in_each_period(
    status: int,
) -> None:
    @in_virtual_time
    async def watched() -> None:
        wire = Refusing()
        with reflecting(wire) as (reflector, _):
            await asyncio.sleep(3010)
            assert 11 <= wire.asked <= 13
            for expired in (False, True) * 5:
                wire.status = status
                wire.server.close_watches()
                wire.oldest = expired * (wire.server.version + 1)
                await asyncio.sleep(0.1)
                wire.status = 0
                name = f"{wire.asked}"
                wire.server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": name}})
                await asyncio.sleep(1)
                assert cached(reflector) == len(wire.server.objects)
                await asyncio.sleep(40)

    watched()


def test_c14_one_of_several_that_list_a_kind_is_enough_to_tell_that_it_is_not_served() -> None:
    metrics, first, second = Metrics("test"), object(), object()

    def value() -> float | None:
        labels = {"resource": "secrets", "watched_namespace": ""}
        return metrics.registry.get_sample_value(metrics.full("unserved"), labels)

    metrics.set_unserved("secrets", "", first, waited=True)
    metrics.set_unserved("secrets", "", second, waited=False)
    assert value() == 1

    metrics.set_unserved("secrets", "", first, waited=False)
    assert value() == 0
