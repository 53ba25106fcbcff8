"""An operator whose objects have three children: two that are changed in place, one replaced.

test_several_children.py runs this file as a program.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: Annotated[str, Meta(max_length=100, description="What each child has.")] = ""


@kr.custom_resource("example.dev", "v1", "trios")
class Trio(kr.Resource):
    """A Trio is a text in two ConfigMaps and a Pod."""

    spec: Spec = Spec()


manager = kr.Manager("trio-operator", kr.Settings)
controller = manager.controller_for(Trio)
controller.owns(kr.kinds.POD, update=kr.RECREATE)
controller.owns(kr.kinds.CONFIG_MAP)


@controller.desired
def desired(trio: Trio, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return the Pod between the two ConfigMaps."""
    name, text = f"trio-{trio.metadata.name}", trio.spec.text
    strict = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "main",
        "image": "trio:1",
        "env": [{"name": "TEXT", "value": text}],
        "securityContext": strict,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
    return [_config_map(f"{name}-first", text), pod, _config_map(f"{name}-last", text)]


def _config_map(name: str, text: str) -> dict[str, Any]:
    data = {"text": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


if __name__ == "__main__":
    raise SystemExit(manager.run())
