"""The greeting operator with a kopf handler that its author added beside the runtime."""

import os
import sys
from typing import Any

import kopf

from examples.greeting.greetings import manager

#: The annotation of an object that this replica handled.
MARK = f"beside-{os.environ['POD_NAME']}"


@kopf.on.create("example.dev", "v1", "greetings")
async def beside(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations[MARK] = "called"


if __name__ == "__main__":
    raise SystemExit(manager.run(["--all-namespaces", *sys.argv[1:]]))
