"""Messages and their Pods, as the API server has them and as the runtime reads them."""

from typing import Any

import msgspec

import kopf_runtime as kr
from kopf_runtime.declaring.records import Child, Owner
from message_operator import messages, pods
from message_operator.messages import Message
from message_operator.settings import Settings

SETTINGS = Settings(message_image="busybox:test")
Raw = dict[str, Any]


def raw_message(text: str = "안녕하세요", name: str = "hello", namespace: str = "ns") -> Raw:
    """A Message as a user creates it, with the API server's defaults."""
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"text": text, "intervalSeconds": 10},
    }


def build(text: str = "안녕하세요", name: str = "hello", settings: Settings = SETTINGS) -> Raw:
    """The manifest of a Message's Pod."""
    return pods.manifest(name, text, 10, settings)


def pod_state(status: Raw, node: str | None = "node-1", text: str = "안녕하세요") -> pods.PodState:
    """What is kept of a Pod with this status."""
    containers = build(text)["spec"]["containers"]
    meta = {"name": "msg-hello", "uid": "u", "resourceVersion": "1"}
    spec = {"nodeName": node, "containers": containers}
    raw = msgspec.json.encode({"metadata": meta, "spec": spec, "status": status})
    return pods.project(msgspec.json.decode(raw, type=kr.Pod))


def child(state: pods.PodState, **changes: Any) -> kr.Child:
    """The record of a Message's Pod."""
    record = {
        "kind": kr.kinds.POD,
        "key": ("ns", "msg-hello"),
        "uid": "u",
        "version": 1,
        "controller_uid": "o",
        "created_for": "o",
        "parent": "hello",
        "deleting": False,
        "deadline": 0.0,
        "created": 0.0,
        "finalizers": (),
        "template": "t",
        "generation": 1,
        "replaced": 0,
        "unlabelled": (),
        "editors": "",
        "view": state,
    }
    return Child(**{**record, **changes})


def status(pod: kr.Child | None, trouble: kr.Trouble | None = None, now: float = 0.0) -> kr.Status:
    """How a Message with this Pod fares."""
    meta = kr.ObjectMeta("hello", "o", "1", "ns", 1)
    message = Message(meta, spec=messages.Spec("안녕하세요"))
    children = (pod,) if pod else ()
    return messages.status(
        messages.project(message), kr.Observed(None, children=children, trouble=trouble, now=now)
    )


def primary(stored: Raw, view: tuple[str, int] = ("", 0)) -> Owner:
    """The record of a Message with this status."""
    return Owner(("ns", "hello"), "o", 1, 1, False, (), stored, view, (), "", 0)
