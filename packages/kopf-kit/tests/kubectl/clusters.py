"""The cluster of an operator of these tests, all of it well, and what a tenant can write in it."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from kopf_kit.kubectl.subject import Kind, Right, Subject
from kopf_kit.kubectl.survey import RELEASE, RELEASE_NAMESPACE
from kopf_kit.release import packed
from kubectl.fake_kubectl import Objects

Raw = dict[str, Any]

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
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": labels,
            "annotations": helm,
        },
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
    return {
        **named(kind.resource, annotations=helm, labels=labels),
        "spec": {"versions": versions},
    }


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
