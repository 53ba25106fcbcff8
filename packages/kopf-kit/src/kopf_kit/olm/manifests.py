"""Plain manifests for users without Helm or of OLM v1, and the kinds' JSON schemas.

Where a bundle is installed by OLM v1, a ServiceAccount is not named: since 1.11, OLM v1 ignores
one. What everybody can read must hold no secret.
"""

import base64
import binascii
import copy
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kopf_kit.chart.templates import Manifest, rendered_again, template
from kopf_kit.olm import service_version
from kopf_kit.project import documents, releases
from kopf_kit.project.definition import PROJECT, Kind
from kopf_kit.rig.run import KitError

_dump = functools.partial(documents.dump, by="kopf_kit/olm/manifests.py of the chart")
_KEY = "PRIVATE KEY-----"


def check(once: Sequence[Manifest], again: Sequence[Manifest]) -> None:
    """Raise KitError if one of two renderings has a private key, or if they differ."""
    problems = [
        f"{_named(manifest)} contains a private key, which would be in a generated file; have "
        "cert-manager or the operator create it, or a value, which is off by default"
        for manifest in once
        if any(_KEY in text for text in _texts(manifest))
    ]
    problems = problems or [
        f"{_named(first)} is rendered differently each time, so generated files could never be up "
        "to date; have the operator create what is random, or a value, which is off by default"
        for first, second in zip(once, again, strict=True)
        if first != second
    ]
    if problems:
        raise KitError("\n".join(problems))


def _named(manifest: Manifest) -> str:
    return f"{PROJECT.chart.name}: {manifest['kind']} {manifest['metadata']['name']}"


def _texts(value: Any) -> Iterator[str]:
    """Yield each text in an object, and what it is decoded."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value
        try:
            yield base64.b64decode(value, validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            return


NAME = PROJECT.name
#: What the bundle omits, because OLM would refuse it without the Prometheus Operator.
_MONITORING_KINDS = ("Service", "PodMonitor", "PrometheusRule", "ConfigMap")
_MONITORING_VALUES = service_version.WRITTEN / "monitoring-values.yaml"


def files() -> dict[Path, str]:
    """Return the contents of the files in build/deploy/, by path."""
    check(template("--skip-tests"), rendered_again("--skip-tests"))
    return {PROJECT.deploy / name: text for name, text in texts().items()}


def texts(*options: str) -> dict[str, str]:
    """Return the manifests and schemas by their files' names, rendered with options of Helm."""
    crds = [manifest for manifest in rendered() if manifest["kind"] == "CustomResourceDefinition"]
    texts = {
        "install.yaml": _dump(namespace(), *rendered(*options)),
        "crds.yaml": _dump(*crds, *_users_roles()),
        # For kubeconform, and for editors.
        **{
            f"{kind.kind.lower()}_{version['name']}.json": schema(crd, version)
            for kind, crd in _defined(crds)
            for version in crd["spec"]["versions"]
        },
    }
    if PROJECT.has_olm:
        texts["monitoring.yaml"] = _dump(*monitoring())
        # What installs the bundle with OLM v1.
        texts["olmv1.yaml"] = _dump(namespace(), *_users_roles(), _extension())
    return texts


def _defined(crds: Sequence[Manifest]) -> Iterator[tuple[Kind, Manifest]]:
    """Yield each kind with its CRD; raise KitError if that lacks the version PROJECT names."""
    for kind in PROJECT.kinds:
        (crd,) = (crd for crd in crds if crd["metadata"]["name"] == kind.crd)
        kind.shown(crd)
        yield kind, crd


def rendered(*options: str) -> list[Manifest]:
    """Return the objects that Helm installs, without Helm's own metadata."""
    return [without_helm(manifest) for manifest in template("--skip-tests", *options)]


def monitoring() -> list[Manifest]:
    """Return the objects that monitor an operator installed by OLM: monitor, alerts, dashboard."""
    everything = template("--skip-tests", "--values", _MONITORING_VALUES)
    return [
        without_helm(manifest) for manifest in everything if manifest["kind"] in _MONITORING_KINDS
    ]


def without_helm(manifest: Manifest) -> Manifest:
    """Return an object without the labels and annotations that only Helm uses."""
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
    """Return the namespace that `helm install --create-namespace` would create."""
    labels = {"app.kubernetes.io/name": NAME, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, "labels": labels}}


def _users_roles() -> list[Manifest]:
    """Return the chart's roles for the kinds' users."""
    prefixes = tuple(f"{kind.crd}-" for kind in PROJECT.kinds)
    return [
        manifest for manifest in rendered() if manifest["metadata"]["name"].startswith(prefixes)
    ]


def _extension() -> Manifest:
    catalog = {"packageName": NAME, "channels": [releases.STABLE]}
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": NAME},
        "spec": {"namespace": NAME, "source": {"sourceType": "Catalog", "catalog": catalog}},
    }


# --- a kind's schema ----------------------------------------------------------------------------

#: The schema of every object's metadata: metav1.ObjectMeta.
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


def schema(crd: Manifest, version: Manifest) -> str:
    """Return the JSON schema of a version of a kind, in which unknown fields are mistakes."""
    closed = _closed(version["schema"]["openAPIV3Schema"])
    # A CRD that people write may leave these three to the API server.
    text = {"type": "string"}, {"type": "string"}, {"type": "object", "additionalProperties": False}
    named = zip(("apiVersion", "kind", "metadata"), text, strict=True)
    properties = closed["properties"] = dict(named) | closed.get("properties", {})
    properties["apiVersion"]["enum"] = [f"{crd['spec']['group']}/{version['name']}"]
    properties["kind"]["enum"] = [crd["spec"]["names"]["kind"]]
    metadata = properties["metadata"]
    metadata["properties"] = _METADATA | metadata.get("properties", {})
    metadata["anyOf"] = [{"required": ["name"]}, {"required": ["generateName"]}]
    return (
        documents.as_json(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$comment": "Generated by kopf_kit/olm/manifests.py of the chart's CRD: do not "
                "edit, `kopf-kit generate`",
                "title": crd["spec"]["names"]["kind"],
                **closed,
                "required": ["apiVersion", "kind", "metadata"],
            }
        )
        + "\n"
    )


def _closed(schema: Any) -> Any:
    """Return a schema in JSON Schema's form, in which objects accept no unknown fields."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(part) for key, part in schema.items() if not key.startswith("x-")}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if "properties" in schema and schema.get("type") == "object" and not open_ended:
        result["additionalProperties"] = False
    return result
