"""What an author may declare beside children and `sync`, on a real API server and under faults."""

import asyncio
import re
import urllib.request
from collections.abc import Awaitable, Callable, Mapping

import pytest

import kopf_runtime as kr
from faults import booths
from faults.booths import CLAIM, NOTE
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import World
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET, SERVICE

pytestmark = pytest.mark.api

#: What a Booth reads: a value, and its base64.
KEY, ENCODED = "open", "b3Blbg=="


class Booths(Parent):
    """The operator of booths.py; the suite looks at the ConfigMap of a Booth."""

    program = (booths.__file__,)
    manager = booths.manager
    owned = (CONFIG_MAP,)

    def spec(self, text: str) -> Raw:
        return {"text": text}

    def rights(self, namespace: str | None) -> list[Raw]:
        """Return its rights, and what a Booth reads."""
        meta = {"namespace": namespace}
        return [
            *super().rights(namespace),
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {**meta, "name": "key"},
                "stringData": {"key": KEY},
            },
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {**meta, "name": "note", "annotations": {"note": "n"}},
            },
        ]

    def plan(self, found: Raw, text: str) -> list[Raw]:
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"booth-{found['metadata']['name']}"},
                "data": {"text": text, "key": ENCODED, "note": "n", "checked": text},
            }
        ]

    @property
    def writes(self) -> Mapping[str, int]:
        return {**super().writes, "create": 3, "edit": 3}


BOOTH = Booths()


@pytest.fixture
def subject() -> Parent:
    return BOOTH


def child(here: World, kind: kr.Kind, name: str = "hello") -> str:
    return kind.path(here.namespace, f"booth-{name}")


async def data(here: World, name: str = "hello") -> Raw:
    """Return the data of a Booth's ConfigMap."""
    found = await here.cluster.find(child(here, CONFIG_MAP, name)) or {}
    return found.get("data") or {}


async def until(here: World, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    async with here.within(60, what):
        while not await holds():
            await asyncio.sleep(0.05)


def samples(port: int, name: str, label: str) -> list[str]:
    """Return the values of a metric of the operator for an object."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return re.findall(rf'^{name}\{{.*name="{label}".*\}} (\S+)$', text, re.MULTILINE)


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["edit", pytest.param("create", marks=pytest.mark.long)])
async def test_what_is_read_indexed_and_checked_outlives_a_kill_after_every_single_write(
    api: Cluster, scenario: str
) -> None:
    await prepare(api, BOOTH)
    await every_write.test_killed_after_every_single_write(api, BOOTH, scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["create", "edit"])
async def test_what_is_read_indexed_and_checked_outlives_a_fault_at_every_single_write(
    here: World, scenario: str
) -> None:
    await every_write.test_a_fault_at_every_single_write(here, BOOTH, scenario)


# --- reads, index, watches, check -----------------------------------------------------------------


async def test_what_is_read_changes_and_a_freed_value_heals_the_next(here: World) -> None:
    port = free_port()
    await here.start(f"--metrics-bind-address=127.0.0.1:{port}")
    await here.create("one", "first")
    spot = {"spec": {"spot": "window"}}
    await here.cluster.patch(here.object("first"), spot)
    await here.wait_until_right("first", "one")
    made = [write.path.split("/")[-2] for write in here.relevant() if write.status == 201]
    children = [kind for kind in made if kind in (CLAIM.plural, CONFIG_MAP.plural)]
    assert children == [CLAIM.plural, CONFIG_MAP.plural]  # after=

    await here.create("two", "second")
    await here.wait_until_right("second", "two")
    await here.cluster.patch(here.object("second"), spot)
    await here.until_reason("SpotTaken", "second")
    await here.edit("later", "second")
    await here.quiet()
    assert (await data(here, "second"))["text"] == "two"
    await here.cluster.patch(here.object("first"), {"spec": {"spot": "door"}})
    await here.wait_until_right("second", "later")

    secret, note = SECRET.path(here.namespace, "key"), NOTE.path(here.namespace, "note")
    await here.cluster.patch(secret, {"data": {"key": "c2h1dA=="}})
    await here.cluster.patch(note, {"metadata": {"annotations": {"note": "m"}}})

    async def follow() -> bool:
        both = [await data(here, name) for name in ("first", "second")]
        return all(found["key"] == "c2h1dA==" and found["note"] == "m" for found in both)

    await until(here, "both have what is read now", follow)
    await here.quiet()
    before = [samples(port, "checks_total", name) for name in ("first", "second")]
    service = {
        "metadata": {"name": "door", "labels": {"booth": "first"}},
        "spec": {"ports": [{"port": 80}]},
    }
    await here.cluster.ask("POST", SERVICE.path(here.namespace), service)

    async def checked() -> bool:
        return samples(port, "checks_total", "first") != before[0]

    await until(here, "the Booth that the Service names is checked", checked)
    assert samples(port, "checks_total", "second") == before[1]


# --- what comes and goes --------------------------------------------------------------------------


async def test_what_is_gone_takes_its_series_along_and_leaves_what_is_retained(here: World) -> None:
    port = free_port()
    await here.start(f"--metrics-bind-address=127.0.0.1:{port}")
    await here.create("four")
    await here.wait_until_right("hello", "four")
    assert samples(port, "text_length", "hello") == ["4.0"]
    claim = await here.cluster.ask("GET", child(here, CLAIM))

    await here.delete()

    async def told() -> bool:
        return samples(port, "text_length", "hello") == []

    await until(here, "its series ends", told)

    async def collected() -> bool:
        return await here.cluster.find(child(here, CONFIG_MAP)) is None

    await until(here, "the ConfigMap is collected", collected)
    await here.create("five!")
    await here.wait_until_right("hello", "five!")
    again = await here.cluster.ask("GET", child(here, CLAIM))
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]  # deletion_policy=kr.RETAIN
