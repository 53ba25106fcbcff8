"""An operator whose objects' children hold data: a claim, a Secret and a StatefulSet.

tests/faults/test_data.py runs this file as a program.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

import kopf_runtime as kr

CLAIM = kr.Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: Annotated[str, Meta(max_length=100, description="What each child has.")] = ""


@kr.custom_resource("example.dev", "v1", "stores")
class Store(kr.Resource):
    """A Store is a text that a claim, a Secret and a StatefulSet have."""

    spec: Spec = Spec()


manager = kr.Manager("store-operator", kr.Settings)
controller = manager.controller_for(Store)
controller.owns(CLAIM)
controller.owns(kr.kinds.SECRET)
# No kubelet runs its Pods here.
controller.owns(kr.kinds.STATEFUL_SET, unready=lambda _: "")


@controller.desired
def desired(store: Store, _: kr.Settings) -> Iterable[dict[str, Any]]:
    """Return the claim, the Secret and the StatefulSet."""
    metadata = {"name": f"store-{store.metadata.name}", "labels": {"text": store.spec.text}}
    labels = {"store": store.metadata.name}
    pod = {"containers": [{"name": "main", "image": "store:1"}]}
    resources = {"requests": {"storage": "1Gi"}}
    return [
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
        },
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "data": {"password": "c2VjcmV0"},
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": {
                "replicas": 1, "serviceName": "store", "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(manager.run())
