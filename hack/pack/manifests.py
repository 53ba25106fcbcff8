"""What the chart makes, for those who do without Helm: plain manifests, and the Message's schema.

`make generate` writes it to deploy/. All is the chart's own rendering; only what is Helm's
is taken away, and a Namespace put before it.
"""

import copy
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from hack.pack import bundle, chart_docs
from hack.pack.project import PROJECT
from hack.rig import paths, tools
from hack.rig.run import output

NAME = PROJECT.name
(_KIND,) = PROJECT.kinds
DEPLOY = paths.CHECKOUT / "deploy"
#: What a user of OLM is without: the bundle has none of it, for OLM would not install it where the
#: Prometheus Operator is missing.
MONITORING = ("Service", "PodMonitor", "PrometheusRule", "ConfigMap")
_MONITORING_VALUES = bundle.WRITTEN / "monitoring-values.yaml"
#: Where a schema is found by kubeconform, and by an editor that is told.
SCHEMA = DEPLOY / "schemas" / f"{_KIND.kind.lower()}_{_KIND.version}.json"

Manifest = dict[str, Any]


def files() -> dict[Path, str]:
    """Return the texts of what is in deploy/, by their paths."""
    crds = [manifest for manifest in rendered() if manifest["kind"] == "CustomResourceDefinition"]
    return {
        DEPLOY / "install.yaml": _dump([namespace(), *rendered()]),
        DEPLOY / "crds.yaml": _dump(crds),
        DEPLOY / "monitoring.yaml": _dump(monitoring()),
        SCHEMA: schema(),
    }


def rendered() -> list[Manifest]:
    """Return what Helm installs by default, without what is Helm's."""
    return [without_helm(manifest) for manifest in _template()]


def monitoring() -> list[Manifest]:
    """Return what monitors an operator of OLM's: who scrapes it, alerts, dashboard."""
    everything = _template(str(_MONITORING_VALUES))
    return [without_helm(manifest) for manifest in everything if manifest["kind"] in MONITORING]


@functools.cache
def _template(*values: str) -> list[Manifest]:
    text = output(
        [
            *(tools.path("helm3"), "template", NAME, chart_docs.CHART, "--namespace", NAME),
            *("--skip-tests", *(f"--values={file}" for file in values)),
        ],
        timeout=60,
    )
    return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


def without_helm(manifest: Manifest) -> Manifest:
    """Return an object without the labels and annotations that only Helm has a use for."""
    result = copy.deepcopy(manifest)
    template = result.get("spec", {}).get("template", {})
    for metadata in (result["metadata"], template.get("metadata", {})):
        for kind in ("labels", "annotations"):
            kept = {k: v for k, v in metadata.pop(kind, {}).items() if not _is_helms(k)}
            if kept:
                metadata[kind] = kept
    return result


def _is_helms(key: str) -> bool:
    return key.startswith("helm.sh/") or key == "app.kubernetes.io/managed-by"


def namespace() -> Manifest:
    """Return the namespace that `helm install --create-namespace` would make."""
    labels = {"app.kubernetes.io/name": NAME, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, "labels": labels}}


def _dump(manifests: Sequence[Manifest]) -> str:
    return bundle.dump(*manifests, by="hack/pack/manifests.py of the chart")


# --- the Message's schema -----------------------------------------------------------------------

#: What the API server knows of metadata, of any kind: metav1.ObjectMeta.
_METADATA: Manifest = {
    "name": {"type": "string"},
    "generateName": {"type": "string"},
    "namespace": {"type": "string"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    "finalizers": {"type": "array", "items": {"type": "string"}},
    "ownerReferences": {"type": "array", "items": {"type": "object"}},
    "managedFields": {"type": "array", "items": {"type": "object"}},
    "generation": {"type": "integer"},
    "deletionGracePeriodSeconds": {"type": "integer"},
    **{
        name: {"type": "string"}
        for name in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "selfLink")
    },
}


def schema() -> str:
    """Return the JSON schema of a Message, in which a field that there is not is a mistake."""
    (crd,) = (m for m in rendered() if m["kind"] == "CustomResourceDefinition")
    (version,) = crd["spec"]["versions"]
    found = _closed(version["schema"]["openAPIV3Schema"])
    properties = found["properties"]
    properties["apiVersion"]["enum"] = [f"{crd['spec']['group']}/{version['name']}"]
    properties["kind"]["enum"] = [crd["spec"]["names"]["kind"]]
    metadata = properties["metadata"]
    metadata["properties"] = _METADATA | metadata["properties"]
    metadata["anyOf"] = [{"required": ["name"]}, {"required": ["generateName"]}]
    return (
        json.dumps(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$comment": "Generated by hack/pack/manifests.py of the chart's CRD: do not edit, "
                "`make generate`",
                "title": _KIND.kind,
                **found,
                "required": ["apiVersion", "kind", "metadata"],
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def _closed(schema: Any) -> Any:
    """Return a schema as JSON Schema has it, with every object closed."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(part) for key, part in schema.items() if not key.startswith("x-")}
    if "properties" in schema and schema.get("type") == "object":
        result["additionalProperties"] = False
    return result
