"""A kind of these tests: a Widget, which has a ConfigMap (applied) or a Pod (replaced)."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from kopf_runtime.reporting import troubles
from runtime.support.api_server import ApiServer
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


def config_map(widget: Widget, _: object = None) -> Iterable[Raw]:
    """The one child of a Widget, if it is a ConfigMap."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"w-{widget.metadata.name}", "labels": {"app": "widget"}},
        "data": {"text": widget.spec.text},
    }


def pod(widget: Widget, _: object = None) -> Iterable[Raw]:
    """The one child of a Widget, if it is a Pod."""
    container = {
        "name": "main",
        "image": "busybox",
        "env": [{"name": "TEXT", "value": widget.spec.text}],
    }
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"w-{widget.metadata.name}", "labels": {"app": "widget"}},
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/os": "linux"}},
    }


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


def otherwise(one: Controller) -> Controller:
    """Return a controller for which a test registers a function in place of its own."""
    one._taken.clear()
    return one


def widget(name: str = "one", namespace: str = "ns", text: str = "hello", **meta: Any) -> Raw:
    """A Widget as somebody creates it."""
    return {"metadata": {"namespace": namespace, "name": name, **meta}, "spec": {"text": text}}


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
