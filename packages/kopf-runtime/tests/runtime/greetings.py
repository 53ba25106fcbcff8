"""A whole operator in few lines, run as a program: each Greeting has a ConfigMap that greets."""

from collections.abc import Iterable
from typing import Any

import kopf_runtime as kr


class Spec(kr.Fields, frozen=True):
    """Who is greeted."""

    name: str = "world"


@kr.custom_resource("example.dev", "v1", "greetings")
class Greeting(kr.Resource):
    """A Greeting is a text in a ConfigMap of its own."""

    spec: Spec = Spec()


manager = kr.Manager("greeting-operator", kr.Settings)
controller = manager.controller_for(Greeting)
controller.owns(kr.kinds.CONFIG_MAP)


@controller.desired
def desired(greeting: Greeting, _: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return what a Greeting should have."""
    metadata = {"name": f"greeting-{greeting.metadata.name}"}
    data = {"text": f"Hello, {greeting.spec.name}!"}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


if __name__ == "__main__":
    raise SystemExit(manager.run())
