"""An operator whose objects' children hold data, of five kinds, one of which is a custom resource.

`holders.py` describes it to the fault suite, which runs this file as a program.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import kopf
from msgspec import Meta

import kopf_runtime as kr

CLAIM = kr.kinds.PERSISTENT_VOLUME_CLAIM
PART = kr.Kind("example.dev", "v1", "parts", "Part")
#: What handlers of kopf are for, beside Pods, and the annotation of what one has seen.
NOTE, SEEN = kr.Kind("neighbours.example.dev", "v1", "notes", "Note"), "seen"


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: Annotated[str, Meta(max_length=100, description="What each child has.")] = ""


@kr.custom_resource("example.dev", "v1", "stores")
class Store(kr.Resource):
    """A Store is a text that a Secret, a claim, a StatefulSet, a Job and a Part have."""

    spec: Spec = Spec()


manager = kr.Manager("store-operator", kr.Settings)
controller = manager.controller_for(Store)
for kind in (kr.kinds.SECRET, CLAIM, kr.kinds.STATEFUL_SET, kr.kinds.JOB, PART):
    controller.owns(kind, unready=lambda _: "")  # no kubelet runs their Pods here


@controller.desired
def desired(store: Store, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return the children; each has the text in an annotation, and the Secret as a password."""
    labels = {"store": store.metadata.name}
    pod = {"containers": [{"name": "main", "image": "store:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    once = {**template, "spec": {**pod, "restartPolicy": "Never"}}
    resources = {"requests": {"storage": "1Gi"}}
    members = [{"id": "a", "role": "first"}, {"id": "b", "role": "second", "zone": "z"}]
    contents: dict[kr.Kind, dict[str, Any]] = {
        kr.kinds.SECRET: {"stringData": {"password": store.spec.text, "user": "store"}},
        CLAIM: {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}},
        kr.kinds.STATEFUL_SET: {
            "spec": {
                "replicas": 1,
                "serviceName": "store",
                "selector": {"matchLabels": labels},
                "template": template,
            }
        },
        kr.kinds.JOB: {"spec": {"backoffLimit": 0, "template": once}},
        PART: {"spec": {"members": members}},
    }
    for kind, content in contents.items():
        metadata = {
            "name": f"store-{store.metadata.name}",
            "annotations": {"text": store.spec.text},
        }
        yield {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


def run_with_handlers() -> int:
    """Run the operator with handlers of kopf beside it, for test_neighbours.py."""

    @kopf.on.startup()
    async def scan(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = False  # so kopf notices kinds that come and go, if it may

    @kopf.on.event("pods")
    @kopf.on.event(NOTE.group, NOTE.version, NOTE.plural)
    async def see(annotations: kopf.Annotations, patch: kopf.Patch, **_: Any) -> None:
        if SEEN not in annotations:
            patch.metadata.annotations[SEEN] = "yes"

    return manager.run()


if __name__ == "__main__":
    raise SystemExit(manager.run())
