"""What is known of a kind in a namespace, and what may be done with it meanwhile."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import CONFIG_MAP
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Seen
from kopf_runtime.watching.availability import PATIENCE, Failures, State, Use, may
from kopf_runtime.watching.reflector import Reflector
from kopf_runtime.watching.source import Source, Watched
from runtime.support.waiting import in_virtual_time
from runtime.test_histories import Wire

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
            for seconds in (PATIENCE * 0.9, PATIENCE + 2):
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


def test_c14_one_of_several_that_list_a_kind_is_enough_to_tell_that_it_is_not_served() -> None:
    metrics, first, second = Metrics("test"), object(), object()

    def value() -> float | None:
        labels = {"resource": "secrets", "watched_namespace": ""}
        return metrics.registry.get_sample_value(metrics.full("unserved"), labels)

    metrics.tell_unserved("secrets", "", first, waited=True)
    metrics.tell_unserved("secrets", "", second, waited=False)
    assert value() == 1

    metrics.tell_unserved("secrets", "", first, waited=False)
    assert value() == 0
