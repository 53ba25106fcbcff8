"""An operator of what holds data, by every policy of `owns`, of a namespace and of the cluster.

test_marks.py runs this file as a program, and describes it to the fault suite.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

import kopf_runtime as kr

CLAIM = kr.kinds.PERSISTENT_VOLUME_CLAIM
PART = kr.Kind("example.dev", "v1", "parts", "Part")

Text = Annotated[str, Meta(max_length=100)]


class Spec(kr.Fields, frozen=True):
    """What is wanted: a text for all children, and the plurals of their kinds."""

    text: Text = ""
    kinds: Text = "secrets persistentvolumeclaims statefulsets parts configmaps"
    #: Where they are, if the object has no namespace of its own.
    namespace: Text = ""


@kr.custom_resource("example.dev", "v1", "vaults")
class Vault(kr.Resource):
    """A Vault is a Secret, a claim, a StatefulSet, a Part and a ConfigMap."""

    spec: Spec = Spec()


@kr.custom_resource("example.dev", "v1", "estates", namespaced=False)
class Estate(kr.Resource):
    """An Estate is a Secret and a claim in a namespace."""

    spec: Spec = Spec()


def contents(kind: kr.Kind, name: str) -> dict[str, Any]:
    """Return what a child of this kind and name consists of."""
    labels = {"of": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    match kind.plural:
        case "secrets":
            return {"stringData": {"password": name}}
        case "persistentvolumeclaims":
            resources = {"requests": {"storage": "1Gi"}}
            return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
        case "statefulsets":
            selector = {"matchLabels": labels}
            return {"spec": {"serviceName": "s", "selector": selector, "template": template}}
        case "parts":
            return {"spec": {"members": [{"id": "a", "role": "first"}]}}
        case _:
            return {"data": {"text": name}}


def desired(thing: Any, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return a child of each kind that is wanted, with the text in an annotation."""
    meta, spec = thing.metadata, thing.spec
    name = f"{type(thing).__name__.lower()}-{meta.name}"
    for kind in (kr.kinds.SECRET, CLAIM, kr.kinds.STATEFUL_SET, PART, kr.kinds.CONFIG_MAP):
        if kind.plural in spec.kinds.split():
            metadata = {
                "name": name,
                "namespace": meta.namespace or spec.namespace,
                "annotations": {"text": spec.text},
            }
            yield {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": metadata,
                **contents(kind, name),
            }


manager = kr.Manager("vault-operator", kr.Settings)
vaults, estates = manager.controller_for(Vault), manager.controller_for(Estate)
DELETE: dict[str, Any] = {"prune": True, "unready": lambda _: ""}
vaults.owns(kr.kinds.SECRET, update=kr.CREATE, prune=True)
vaults.owns(CLAIM, update=kr.CREATE, deletion_policy=kr.RETAIN, **DELETE)
vaults.owns(kr.kinds.STATEFUL_SET, on_immutable=kr.ORPHAN, **DELETE)
vaults.owns(PART, prune=False)
vaults.owns(kr.kinds.CONFIG_MAP, update=kr.RECREATE)
estates.owns(kr.kinds.SECRET, update=kr.CREATE, deletion_policy=kr.RETAIN, prune=True)
estates.owns(CLAIM, **DELETE)
for controller in (vaults, estates):
    controller.desired(desired)

if __name__ == "__main__":
    raise SystemExit(manager.run())
