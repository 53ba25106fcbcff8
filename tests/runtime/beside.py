"""The greeting operator with a kopf handler that its author added beside the runtime."""

from typing import Any

import kopf

from examples.greeting.greetings import manager


@kopf.on.create("example.dev", "v1", "greetings")
async def beside(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["beside"] = "called"


if __name__ == "__main__":
    raise SystemExit(manager.run(["--all-namespaces"]))
