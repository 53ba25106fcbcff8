from dataclasses import dataclass
from typing import Any

import pytest

from message_operator.cache import Cache, Key


@dataclass(frozen=True)
class Thing:
    key: Key
    uid: str
    version: int


def thing(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version}}


def parse(raw: dict[str, Any]) -> Thing:
    meta = raw["metadata"]
    return Thing((meta["namespace"], meta["name"]), meta["uid"], meta["resourceVersion"])


@pytest.fixture
def cache() -> Cache[Thing]:
    return Cache(parse)


def version(cache: Cache[Thing], name: str) -> int | None:
    record = cache.get(("ns", name))
    return record.version if record else None


def test_the_newest_wins_whatever_comes_last(cache: Cache[Thing]) -> None:
    assert cache.observe(thing("a", 5)) is not None
    assert cache.observe(thing("a", 7)) is not None
    assert cache.observe(thing("a", 6)) is None

    assert version(cache, "a") == 7


def test_an_echo_of_what_is_known_is_no_news(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5))

    assert cache.observe(thing("a", 5)) is None


def test_what_is_gone_stays_gone_when_a_late_answer_tells_of_it(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5))
    cache.forget(thing("a", 8))

    assert cache.observe(thing("a", 7)) is None
    assert len(cache) == 0


def test_another_object_of_the_same_name_is_news(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5, "old"))
    cache.forget(thing("a", 8, "old"))

    assert cache.observe(thing("a", 9, "new")) is not None


def test_a_late_deletion_does_not_take_a_newer_object_of_the_name(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 9, "new"))

    assert cache.forget(thing("a", 8, "old")) is None
    assert version(cache, "a") == 9


def test_a_full_list_drops_ghosts_but_not_what_came_after_it(cache: Cache[Thing]) -> None:
    cache.observe(thing("ghost", 5))
    cache.observe(thing("there", 6))
    cache.observe(thing("newer", 12))

    ghosts = cache.prune({("ns", "there")}, 10, None)

    assert ghosts == [("ns", "ghost")]
    assert version(cache, "there") == 6
    assert version(cache, "newer") == 12


def test_a_list_of_one_namespace_says_nothing_of_the_others(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5))

    assert cache.prune(set(), 10, "elsewhere") == []
    assert version(cache, "a") == 5


def test_a_list_that_is_older_than_what_it_said_before_contradicts(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5))
    cache.observe(thing("newer", 12))

    assert cache.newest() == 12
    assert not cache.contradicts({("ns", "a"): 5, ("ns", "newer"): 11}, 11)
    assert cache.contradicts({("ns", "a"): 3}, 20)


def test_cleared_is_as_if_never_seen(cache: Cache[Thing]) -> None:
    cache.observe(thing("a", 5))
    cache.forget(thing("b", 7))

    cache.clear("elsewhere")
    assert len(cache) == 1
    cache.clear("ns")

    assert (len(cache), cache.newest()) == (0, 0)
