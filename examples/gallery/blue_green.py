"""A Deployment for each image: the Service moves to the next one once that is ready, at once."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """What runs."""

    image: Annotated[str, Meta(min_length=1, max_length=500)]
    """The image, which listens at port 8080."""
    replicas: Annotated[int, Meta(ge=1, le=100)] = 2
    """How many Pods run it."""


@kr.custom_resource("gallery.example.dev", "v1", "bluegreens")
class BlueGreen(kr.Resource, kw_only=True):
    """A BlueGreen is a Service of its name, before a Deployment that is replaced as a whole."""

    spec: Spec


manager = kr.Manager("blue-green", kr.Settings)
apps = manager.controller_for(BlueGreen)
apps.owns(kr.kinds.DEPLOYMENT)  # the former one is deleted once the others are ready
apps.owns(kr.kinds.SERVICE, after=(kr.kinds.DEPLOYMENT,))


@apps.desired
def desired(app: BlueGreen, _: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the Deployment of the image, and the Service that leads to it."""
    name, spec = app.metadata.name, app.spec
    labels = {"app": name, "color": kr.short_hash(spec.image)}
    pod = {"containers": [{"name": "main", "image": spec.image}]}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-{labels['color']}"},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
    }


if __name__ == "__main__":
    raise SystemExit(manager.run())
