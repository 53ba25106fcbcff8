"""What becomes of children that are no longer wanted, if an author forgets to say it."""

from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.conditions import condition
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, DEPLOYMENT, PERSISTENT_VOLUME_CLAIM, SECRET
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.test_readiness import DEPLOYED
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget

KEY, CHILD = ("ns", "one"), ("ns", "w")
OTHERS = kr.Kind("db.example.org", "v1", "databases", "Database")
HOLDING = (PERSISTENT_VOLUME_CLAIM, SECRET, OTHERS)
KINDS = (WIDGET, DEPLOYMENT, CONFIG_MAP, *HOLDING)


def named(kind: kr.Kind, name: str, **content: Any) -> Raw:
    meta = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    return {**meta, **content}


def owning(*kinds: kr.Kind, desired: Callable[..., Iterable[Raw]], **options: Any) -> Controller:
    one = Controller(WIDGET, Widget, None)
    for kind in kinds:
        one.owns(kind, **options)
    one.desired(desired)
    return one


def unless_empty(thing: Widget, _: object) -> Iterable[Raw]:
    """Forget that nothing to return is not the same as nothing to change."""
    if thing.spec.text != "empty":
        yield from (named(kind, "w") for kind in (CONFIG_MAP, *HOLDING))


def kept(server: ApiServer) -> Raw:
    return condition((server.get(WIDGET, KEY) or {}).get("status") or {}, "ChildrenKept")


async def test_a_plan_that_is_empty_deletes_nothing_that_may_hold_data(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with operating(server, owning(CONFIG_MAP, *HOLDING, desired=unless_empty)):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        server.edit(WIDGET, KEY, edit("empty"))
        await until(lambda: server.get(CONFIG_MAP, CHILD) is None and kept(server))
        assert kept(server)["status"] == "True"
        said = "PersistentVolumeClaim w, Secret w, Database w. It stays because it may hold data"
        assert said in kept(server)["message"]
        assert all(server.get(kind, CHILD) for kind in HOLDING)

        for kind in HOLDING:
            server.remove(kind, CHILD)
        await until(lambda: kept(server)["status"] == "False")


async def test_what_may_hold_data_goes_if_its_author_says_so(server: ApiServer) -> None:
    """And a deletion whose answer is lost is an Event, too."""

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if request.method != "DELETE" or "/configmaps/" not in request.path:
            return None
        server.answers.clear()
        answer = await server._serve(request)
        assert request.transport is not None
        request.transport.close()
        return answer

    one = owning(CONFIG_MAP, *HOLDING, desired=unless_empty, prune=True)
    server.answers.append(lose)
    server.put(WIDGET, widget())
    async with operating(server, one):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        server.edit(WIDGET, KEY, edit("empty"))
        await until(lambda: not any(server.get(kind, CHILD) for kind in HOLDING))
        lost = "Asked without an answer to delete ConfigMap w: the Widget does not want it any more"
        await until(lambda: any(lost in event["message"] for event in server.events))
    assert not kept(server)


def hashed(thing: Widget, _: object) -> Iterable[Raw]:
    """A ConfigMap whose name changes with its content, and what mounts it."""
    name = f"pages-{thing.spec.text}"
    yield named(CONFIG_MAP, name)
    yield named(DEPLOYMENT, "w", spec={"replicas": 3, "pages": name})


async def test_a3_a_config_map_stays_until_its_rollout_has_ended(server: ApiServer) -> None:
    def rolls(**status: Any) -> None:
        server.edit(DEPLOYMENT, CHILD, lambda raw: raw.update(status=status), subresource="status")

    def mounts(name: str) -> Callable[[], bool]:
        return lambda: name in str(server.get(DEPLOYMENT, CHILD))

    def pages() -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in server.all(CONFIG_MAP))

    server.put(WIDGET, widget(text="a"))
    async with operating(server, owning(CONFIG_MAP, DEPLOYMENT, desired=hashed)):
        await until(lambda: server.get(DEPLOYMENT, CHILD))
        rolls(**DEPLOYED)
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
        for text in "bc":  # two edits, whose rollouts are stuck
            server.edit(WIDGET, KEY, edit(text))
            await until(mounts(f"pages-{text}"))
            generation = (server.get(DEPLOYMENT, CHILD) or {})["metadata"].get("generation", 1)
            rolls(**{**DEPLOYED, "observedGeneration": generation, "updatedReplicas": 1})
            await until(lambda: "1 of 3" in ready(server.get(WIDGET, KEY)).get("message", ""))
        assert pages() == ["pages-a", "pages-b", "pages-c"]

        rolls(**{**DEPLOYED, "observedGeneration": generation})
        await until(lambda: pages() == ["pages-c"])
