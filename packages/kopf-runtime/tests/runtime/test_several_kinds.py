"""Several kinds in one process: each is served, and fails and recovers, by itself."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, ready, text, widget

LABEL = kr.Kind("example.dev", "v1", "labels", "Label")
KEY = ("ns", "one")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(WIDGET, LABEL).running() as one:
        one.put(WIDGET, widget())
        one.put(LABEL, widget())
        yield one


def labels() -> Controller:
    """Return the controller of a second kind, which also owns ConfigMaps."""

    def desired(label: widgets.Widget, _: object) -> Iterable[Raw]:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"l-{label.metadata.name}"},
            "data": {"text": label.spec.text},
        }

    one = Controller(LABEL, widgets.Widget, lambda _: None)
    one.owns(CONFIG_MAP)
    one.desired(desired)
    return one


def is_ready(server: ApiServer, kind: kr.Kind) -> bool:
    return bool(ready(server.get(kind, KEY)).get("status") == "True")


async def test_both_are_served_and_neither_touches_the_other_s_children(server: ApiServer) -> None:
    async with operating(server, widgets.controller(), labels()):
        await until(lambda: is_ready(server, WIDGET) and is_ready(server, LABEL))
        before = len(server.writes)
        server.edit(CONFIG_MAP, ("ns", "l-one"), lambda raw: raw.update(data={"text": "altered"}))
        await until(lambda: text(server, ("ns", "l-one")) == "hello")

        assert server.writes[before:] == ["PATCH /api/v1/namespaces/ns/configmaps/l-one"]
    owners = [
        server.get(CONFIG_MAP, ("ns", name))["metadata"]["ownerReferences"][0]["kind"]  # type: ignore[index]
        for name in ("w-one", "l-one")
    ]
    assert owners == ["Widget", "Label"]


@pytest.mark.parametrize("code", [403, 404])
async def test_a_missing_or_forbidden_kind_holds_up_no_other(server: ApiServer, code: int) -> None:
    missing = RefusedError(code, "NotFound" if code == 404 else "Forbidden")
    server.refuse("GET", "/labels$", missing, times=float("inf"))

    async with operating(server, one := widgets.controller(), other := labels()) as operator:
        await until(lambda: is_ready(server, WIDGET))
        await until(lambda: caches(other).unserved()[0])
        assert caches(one).unserved() == ([], 1)
        assert caches(other).unserved()[1] == 0
        unserved = {"resource": "labels", "watched_namespace": ""}
        assert operator.metric("unserved", **unserved) == 1

        server.answers.clear()
        await until(lambda: text(server, ("ns", "l-one")) == "hello")
        await until(lambda: operator.metric("unserved", **unserved) == 0)


def test_d17_objects_that_cannot_be_read_are_counted_for_all_controllers() -> None:
    metrics = Metrics("tester")
    for count in (2, 0, 1):
        metrics.count_unreadable("pods", lambda count=count: count)  # type: ignore[misc]

    labels = {"resource": "pods"}
    assert metrics.registry.get_sample_value("tester_unreadable_objects", labels) == 3


async def test_c14_two_kinds_of_one_plural_are_told_apart_in_the_metrics() -> None:
    other = WIDGET._replace(group="example.com")
    asked = list[str]()

    async def fail(request: Any) -> Any:
        if request.method == "PATCH" and request.path.startswith(f"/apis/{other.group}/"):
            asked.append(request.path)
            return RefusedError(403, "Forbidden", "no").response()
        return None

    one, two = widgets.controller(), Controller(other, widgets.Widget, lambda _: None)
    two.desired(lambda *_: ())
    async with ApiServer(WIDGET, other).running() as server:
        server.put(WIDGET, widget())
        server.put(other, widget())
        server.answers.append(fail)
        async with operating(server, one, two) as operator:
            await until(lambda: is_ready(server, WIDGET) and len(asked) >= 3)
            assert operator.reconciles("requeue", of="widgets.example.com") >= 2
            assert not operator.reconciles("requeue")
            assert operator.metric("status_writes_refused_total", resource="widgets.example.com")
            assert not operator.metric("status_writes_refused_total", resource="widgets")
            depth = operator.metrics.registry.get_sample_value
            for queue in ("widgets", "widgets.example.com"):
                assert depth("workqueue_depth", {"name": queue}) == 0
