"""A kind of these tests: a Widget, which has a ConfigMap (applied) or a Pod (replaced)."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from kopf_runtime.reporting import troubles
from runtime.support.api_server import ApiServer
from runtime.support.running import Operator, operating
from runtime.support.waiting import until

WIDGET = kr.Kind("example.dev", "v1", "widgets", "Widget")
UID, TEMPLATE = "example.dev/widget-uid", "example.dev/template-hash"
GENERATION, REPLACED = "example.dev/widget-generation", "example.dev/replacements"

Raw = dict[str, Any]
Desired = Callable[..., Iterable[Raw]]


class Spec(msgspec.Struct, frozen=True):
    text: str = ""


class Widget(kr.Resource):
    spec: Spec = Spec()


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class Pod(kr.Object):
    status: PodStatus = PodStatus()


def manifest(kind: kr.Kind, name: str, meta: Raw | None = None, **content: Any) -> Raw:
    """Return a manifest of a kind with this name, further metadata and content."""
    metadata = {"name": name, **(meta or {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


def config_map(widget: Widget, _: object = None) -> Iterable[Raw]:
    """The one child of a Widget, if it is a ConfigMap."""
    labels, data = {"labels": {"app": "widget"}}, {"text": widget.spec.text}
    yield manifest(CONFIG_MAP, f"w-{widget.metadata.name}", labels, data=data)


def pod(widget: Widget, _: object = None) -> Iterable[Raw]:
    """The one child of a Widget, if it is a Pod."""
    container = {
        "name": "main",
        "image": "busybox",
        "env": [{"name": "TEXT", "value": widget.spec.text}],
    }
    spec = {"containers": [container], "nodeSelector": {"kubernetes.io/os": "linux"}}
    yield manifest(POD, f"w-{widget.metadata.name}", {"labels": {"app": "widget"}}, spec=spec)


def _ended(phase: str) -> str:
    return phase if phase in ("Succeeded", "Failed") else ""


def controller(desired: Desired = config_map, **owns: Any) -> Controller:
    """A controller of Widgets, with ConfigMaps or Pods by what is desired."""
    widgets = Controller(WIDGET, Widget, None)
    if desired is pod:
        widgets.owns(
            POD,
            Pod,
            update=kr.RECREATE,
            transform=lambda thing: thing.status.phase,
            finished=_ended,
            unready=lambda _: "",  # no kubelet runs it
            **owns,
        )
    else:
        widgets.owns(CONFIG_MAP, **owns)
    widgets.desired(desired)
    return widgets


def owning(desired: Desired, *kinds: kr.Kind, **options: Any) -> Controller:
    """Return a controller of Widgets that owns these kinds."""
    one = Controller(WIDGET, Widget, None)
    for kind in kinds:
        one.owns(kind, **options)
    one.desired(desired)
    return one


def otherwise(one: Controller) -> Controller:
    """Return a controller for which a test registers a function in place of its own."""
    one._taken.clear()
    return one


def widget(name: str = "one", namespace: str = "ns", text: str = "hello", **meta: Any) -> Raw:
    """A Widget as somebody creates it."""
    return {"metadata": {"namespace": namespace, "name": name, **meta}, "spec": {"text": text}}


def reference(uid: str) -> Raw:
    """Return a reference to the Widget `one` of this uid."""
    return {
        "apiVersion": WIDGET.api_version,
        "kind": WIDGET.kind,
        "name": "one",
        "uid": uid,
        "controller": True,
    }


def edit(text: str) -> Callable[[Raw], None]:
    """Return what changes a Widget's text."""

    def change(raw: Raw) -> None:
        raw["spec"] = {"text": text}

    return change


async def resynced(server: ApiServer, kind: kr.Kind = WIDGET, times: int = 5) -> None:
    """Wait until a kind was listed so many times more: what resyncs do by mistake is done then."""

    def lists() -> int:
        return sum(
            request.method == "GET" and request.path == kind.path() and "watch" not in request.query
            for request in server.requests
        )

    enough = lists() + times
    await until(lambda: lists() >= enough)


def ready(raw: Raw | None) -> Raw:
    """Return an object's Ready condition, empty without one."""
    conditions = ((raw or {}).get("status") or {}).get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    found: Raw = next((c for c in listed if c["type"] == "Ready"), {})
    return found


def readiness(server: ApiServer, key: tuple[str, str] = ("ns", "one")) -> Raw:
    """Return the Ready condition of a Widget that the API server has, empty without one."""
    return ready(server.get(WIDGET, key))


def is_ready(server: ApiServer) -> bool:
    """Return whether the Widget is Ready."""
    return readiness(server).get("status") == "True"


@asynccontextmanager
async def working_on(
    server: ApiServer, raw: Raw, *controllers: Controller, **options: Any
) -> AsyncIterator[Operator]:
    """Store a Widget, and run controllers during the block."""
    server.put(WIDGET, raw)
    async with operating(server, *controllers, **options) as operator:
        yield operator


@asynccontextmanager
async def reconciled(
    server: ApiServer, raw: Raw, *controllers: Controller, **options: Any
) -> AsyncIterator[Operator]:
    """Do the same, with a block that begins once the Widget `one` is Ready."""
    async with working_on(server, raw, *controllers, **options) as operator:
        await until(lambda: is_ready(server))
        yield operator


def text(server: ApiServer, key: tuple[str, str] = ("ns", "w-one")) -> Any:
    """Return the text in a ConfigMap, or None without one."""
    return (server.get(CONFIG_MAP, key) or {"data": {}})["data"].get("text")


def retry_after(monkeypatch: pytest.MonkeyPatch, seconds: float, instead: float) -> None:
    """Have what is tried again after some seconds be tried after others."""
    rules = {
        reason: rule._replace(again=seconds) if rule.again == instead else rule
        for reason, rule in troubles.RULES.items()
    }
    monkeypatch.setattr(troubles, "RULES", rules)
