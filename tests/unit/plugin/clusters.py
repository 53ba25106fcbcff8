"""A cluster with an operator that all is well with, and what a tenant can write in it."""

import copy
from typing import Any

from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.survey import RELEASE, RELEASE_NAMESPACE
from tests.unit.plugin.fake_kubectl import Objects
from tests.unit.plugin.operators import Raw, account, by_helm, lease, pod
from tests.unit.plugin.test_messages import WELL

TENANT = "tenant"


def healthy() -> Objects:
    """Return the objects of a cluster with an operator and a Message, by resource."""
    deployment = installed()
    one = Operator(deployment, [], None)
    there = {"namespace": one.namespace}
    running = pod("operator-0")
    running["metadata"].update(there)
    held = lease("operator-0")
    held["metadata"] = {"name": one.lease_name, **there}
    owner = account(deployment)
    owner["metadata"].update(there)
    message = copy.deepcopy(WELL)
    message["metadata"].update(name="hello", namespace="team")
    printing = pod("msg-hello")
    printing["metadata"]["namespace"] = "team"
    return {
        "deployments": [deployment],
        "pods": [running, printing],
        "leases": [held],
        "serviceaccounts": [owner],
        "messages": [message],
        "namespaces": [{"metadata": {"name": name}} for name in (one.namespace, "team", TENANT)],
        "nodes": [pod("node-1", ready=False)],
        "customresourcedefinitions": [crd(one.namespace)],
        "events": [],
        "granted": [[one.account, ""]],
    }


def installed(**values: object) -> Raw:
    """Return the operator's Deployment as Helm installs it."""
    deployment = by_helm(**values)
    helm = {RELEASE: "demo", RELEASE_NAMESPACE: deployment["metadata"]["namespace"]}
    deployment["metadata"]["annotations"] = helm
    return deployment


def crd(namespace: str = "", release: str = "demo") -> Raw:
    """Return the CRD, as Helm installs it in this namespace."""
    helm = {RELEASE: release, RELEASE_NAMESPACE: namespace} if namespace else {}
    labels = {"app.kubernetes.io/name": "message-operator"}
    metadata = {"name": "messages.myorg.dev", "annotations": helm, "labels": labels}
    return {"metadata": metadata, "spec": {"versions": [{"name": "v1", "served": True}]}}


def look_alike(*arguments: str, namespace: str = TENANT, **values: object) -> Raw:
    """Return a copy of the operator's Deployment that a tenant made, with more arguments."""
    copied = installed(**values)
    copied["metadata"]["namespace"] = namespace
    container(copied)["args"] += arguments
    container(copied)["image"] = "registry.invalid/none"
    return copied


def container(deployment: Raw) -> Any:
    return deployment["spec"]["template"]["spec"]["containers"][0]
