"""An operator with what many have: a claim that stays, a Service, and a value of one object alone.

test_subjects.py runs this file as a program.
"""

from collections.abc import Iterable
from typing import Any

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: str = ""
    host: str = ""


@kr.custom_resource("example.dev", "v1", "shops")
class Shop(kr.Resource):
    """A Shop has a claim, a ConfigMap and a Service."""

    spec: Spec = Spec()


manager = kr.Manager("shop-operator", kr.Settings)
controller = manager.controller_for(Shop)
controller.owns(kr.kinds.CONFIG_MAP)
controller.owns(kr.kinds.PERSISTENT_VOLUME_CLAIM, deletion_policy=kr.RETAIN)
controller.owns(kr.kinds.SERVICE)
controller.unique("host", lambda shop: [shop.spec.host])


@controller.desired
def desired(shop: Shop, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return the children."""
    name = {"name": shop.metadata.name}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    service = {"selector": name, "ports": [{"port": 80}]}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"t": shop.spec.text}}
    yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": name, "spec": claim}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": service}


if __name__ == "__main__":
    raise SystemExit(manager.run())
