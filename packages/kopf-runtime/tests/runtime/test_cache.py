from dataclasses import dataclass

import msgspec
import pytest

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import CONFIG_MAP, Key
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Seen
from kopf_runtime.watching import cache as caches
from kopf_runtime.watching.cache import Cache
from kopf_runtime.watching.source import Source, Watched


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


def test_a_list_of_one_namespace_says_nothing_of_the_others(cache: Cache[Thing]) -> None:
    cache.put(thing("a", 5))

    assert cache.replace({}, 10, "elsewhere") == []
    assert version(cache, "a") == 5


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
