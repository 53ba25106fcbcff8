"""A whole operator: each Greeting has a ConfigMap that greets. docs/runtime.md explains it."""

from collections.abc import Iterable
from typing import Any

import msgspec

import kopf_runtime as kr


class Spec(msgspec.Struct, frozen=True):
    """What a user declares."""

    name: str = "world"


class Greeting(kr.Resource):
    """A Greeting."""

    spec: Spec = Spec()


manager = kr.Manager("greeting-operator", kr.Settings)
controller = manager.controller_for(kr.Kind("example.dev", "v1", "greetings", "Greeting"), Greeting)
controller.owns(kr.kinds.CONFIG_MAP)


@controller.desired
def desired(greeting: Greeting, _: kr.Settings) -> Iterable[dict[str, Any]]:
    """Return what a Greeting should have."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"greeting-{greeting.metadata.name}"},
        "data": {"text": f"Hello, {greeting.spec.name}!"},
    }


if __name__ == "__main__":
    raise SystemExit(manager.run())
