"""Deployments, Pods and Leases of operators, as the API server returns them."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from chart import helm
from kopf_kit.kubectl import installation
from kopf_kit.olm import bundle
from kopf_kit.project import documents

Raw = dict[str, Any]


def by_helm(**values: object) -> Raw:
    """Return the Deployment that the chart makes."""
    found = next(m for m in helm.render(values) if m["kind"] == "Deployment")
    return copy.deepcopy(found)


def by_olm(namespaces: str = "") -> Raw:
    """Return the Deployment that OLM makes of the bundle."""
    file = bundle.BUNDLE / "manifests" / f"{bundle.NAME}.clusterserviceversion.yaml"
    (deployment,) = documents.load(file.read_text())["spec"]["install"]["spec"]["deployments"]
    template = deployment["spec"]["template"]["metadata"]
    template["annotations"] = {**template["annotations"], installation.OLM: namespaces}
    metadata = {"name": deployment["name"], "namespace": "operators", "labels": deployment["label"]}
    return {"metadata": metadata, "spec": deployment["spec"]}


def pod(name: str = "operator-0", *, ready: bool = True, **status: object) -> Raw:
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": {"name": name}, "status": {"conditions": [condition], **status}}


def account(deployment: Raw, seconds: float = 7200) -> Raw:
    """Return the ServiceAccount of a Deployment, created these seconds ago."""
    name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    return {"metadata": {"name": name, "creationTimestamp": ago(seconds)}}


def lease(holder: str, seconds: float = 0) -> Raw:
    renewed = ago(seconds).replace("Z", ".000000Z")
    return {"spec": {"holderIdentity": holder and f"{holder}_0a1b2c3d", "renewTime": renewed}}


def ago(seconds: float) -> str:
    """Return a time as the API writes it."""
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")
