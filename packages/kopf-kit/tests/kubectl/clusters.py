"""The cluster of an operator of these tests, all of it well, and what a tenant can write in it."""

import copy
import json
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from kopf_kit.kubectl.subject import Kind, Right, Subject
from kopf_kit.kubectl.survey import RELEASE, RELEASE_NAMESPACE
from kopf_kit.release import packed

Raw = dict[str, Any]
Objects = dict[str, Any]  # by resource

GROUP = "example.com"
NAME, HOME, TEAM, TENANT = "widget-operator", "operators", "team", "tenant"
ALERTS = tuple(f"WidgetOperator{name}" for name in ("Down", "NoLeader", "QueueStuck", "Forbidden"))
WIDGETS = Kind(
    "Widget", "Widgets", f"widgets.{GROUP}", "v1", True, {"version": True, "pod": {"secrets": True}}
)
GADGETS = Kind("Gadget", "Gadgets", f"gadgets.{GROUP}", "v1", True, {})
SUBJECT = Subject(
    name=NAME,
    command="widget",
    version="0.1.0",
    home="https://example.com/widget",
    runbooks="https://example.com/runbooks.md",
    alerts=ALERTS,
    variables="WIDGET_OPERATOR_",
    signs=("WIDGET_OPERATOR_", "--widget-image="),
    kinds=(WIDGETS, GADGETS),
    rights=(
        Right(GROUP, "widgets", "list"),
        Right(GROUP, "widgets/status", "patch"),
        Right("", "pods", "create"),
        Right("", "configmaps", "create"),
        Right("", "secrets", "create"),
        Right("", "pods/eviction", "create"),
        Right("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    tells=True,
    advice=packed.advice(packed.KNOWN, alerts=ALERTS),
)
ACCOUNT = f"system:serviceaccount:{HOME}:widget"


def ago(seconds: float) -> str:
    """Return a time as the API writes it."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def owned(kind: str, name: str, *, ready: str = "True", **condition: Any) -> Raw:
    """Return an object of the operator's."""
    meta = {"name": name, "namespace": TEAM, "generation": 1, "creationTimestamp": ago(600)}
    said: Raw = {"type": "Ready", "status": ready, "reason": "NoQuorum"}
    said["message"] = "2 of 3 are down"
    said |= {"lastTransitionTime": ago(180), "observedGeneration": 1, **condition}
    return {
        "kind": kind,
        "metadata": {**meta, "uid": name},
        "spec": {},
        "status": {"conditions": [said]},
    }


def pod(name: str, namespace: str = HOME, *, ready: bool = True, **status: Any) -> Raw:
    conditions = [{"type": "Ready", "status": str(ready)}]
    containers = [{"name": "operator", "restartCount": 0}]
    status = {"conditions": conditions, "containerStatuses": containers, **status}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": status}


def deployment(*arguments: str, namespace: str = HOME) -> Raw:
    """Return the operator's Deployment, or in another namespace a copy that a tenant made."""
    container = {
        "name": "operator",
        "image": f"registry.example/{NAME}:0.1.0",
        "args": ["--all-namespaces", "--leader-elect", f"--lease-name={NAME}", *arguments],
        "env": [
            {"name": "WIDGET_OPERATOR_LOG_LEVEL", "value": "info"},
            {"name": "HTTPS_PROXY", "value": "http://me:hunter2@proxy"},
        ],
    }
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": "0.1.0"}
    helm = {RELEASE: "demo", RELEASE_NAMESPACE: namespace}
    spec = {"serviceAccountName": "widget", "containers": [container]}
    return {
        "metadata": {"name": NAME, "namespace": namespace, "labels": labels, "annotations": helm},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {}, "spec": spec},
        },
    }


def container(one: Raw) -> Any:
    return one["spec"]["template"]["spec"]["containers"][0]


def named(name: str, namespace: str = "", **more: Any) -> Raw:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **more}}


def crd(kind: Kind) -> Raw:
    """Return a CRD as Helm installs it."""
    helm = {RELEASE: "demo", RELEASE_NAMESPACE: HOME}
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": "0.1.0"}
    versions = [{"name": kind.version, "served": True}]
    return {**named(kind.resource, annotations=helm, labels=labels), "spec": {"versions": versions}}


def healthy() -> Objects:
    """Return the objects of a cluster in which all is well, by resource."""
    lease = named(NAME, HOME)
    lease["spec"] = {"holderIdentity": "operator-0_a", "renewTime": ago(0).replace("Z", ".0Z")}
    return copy.deepcopy(
        {
            "deployments": [deployment()],
            "pods": [pod("operator-0")],
            "leases": [lease],
            "serviceaccounts": [named("widget", HOME, creationTimestamp=ago(7200))],
            "widgets": [owned("Widget", "main")],
            "gadgets": [],
            "configmaps": [],
            "events": [],
            "secrets": [{**named("root", TEAM), "data": {"password": "aHVudGVyMg=="}}],
            "namespaces": [named(name) for name in (HOME, TEAM, TENANT)],
            "nodes": [pod("node-1", ready=False)],
            "customresourcedefinitions": [crd(kind) for kind in SUBJECT.kinds],
            "granted": [[ACCOUNT, ""]],
        }
    )


def answer(objects: Objects, argv: list[str], stdin: str) -> tuple[int, str]:
    """Return the exit code and the output of a command of kubectl's.

    Like the real one it obeys options wherever they stand: `--server=URL` sends it there, with the
    user's token. "granted" has the accounts that may do everything, each with a namespace or with
    "" for all.
    """
    before = argv[: argv.index("--")] if "--" in argv else argv
    after = argv[len(before) + 1 :]
    for option in before:
        if option.startswith("--server="):
            visit(option.partition("=")[2])
            return 1, ""
    words = [*(word for word in before if not word.startswith("-")), *after]
    options = dict(word.lstrip("-").partition("=")[::2] for word in before if word.startswith("-"))
    verb, *names = words
    if verb == "version":
        version = {"gitVersion": "v1.36.4"}
        return 0, json.dumps({"clientVersion": version, "serverVersion": version})
    if verb == "create":
        return 0, "\n".join(
            json.dumps(reviewed(objects, item)) for item in json.loads(stdin)["items"]
        )
    if verb == "config":
        return 0, "team"
    if verb != "get":
        return 0, ""
    found = listed(objects, names[0], options)
    if len(names) == 1:
        return 0, json.dumps({"items": found})
    named = [raw for raw in found if raw["metadata"]["name"] == names[1]]
    return 0, json.dumps(named[0]) if named else ""


def visit(url: str) -> None:
    """Do what kubectl does with another server: send the token there."""
    with suppress(OSError, ValueError):
        host, _, port = url.partition("//")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")


def listed(objects: Objects, resources: str, options: dict[str, str]) -> list[Any]:
    kinds = [resource.partition(".")[0] for resource in resources.split(",")]
    where = options.get("namespace")
    return [
        raw
        for kind in kinds
        for raw in objects.get(kind, [])
        if where is None or raw["metadata"].get("namespace", where) == where
    ]


def reviewed(objects: Objects, review: Any) -> Any:
    spec = review["spec"]
    place = spec["resourceAttributes"].get("namespace", "")
    granted = {tuple(pair) for pair in objects["granted"]}
    allowed = bool({(spec["user"], ""), (spec["user"], place)} & granted)
    return {**review, "status": {"allowed": allowed}}
