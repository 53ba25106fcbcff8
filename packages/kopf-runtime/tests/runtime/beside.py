"""The greeting operator with a kopf handler that its author added beside the runtime."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import kopf

from runtime.greetings import manager

#: The annotation of an object that this replica handled.
MARK = f"beside-{os.environ['POD_NAME']}"


@kopf.on.create("example.dev", "v1", "greetings")
async def beside(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations[MARK] = "called"


if "PODS" in os.environ:

    @kopf.on.event("pods")
    async def seen(name: str, **_: Any) -> None:
        """Note a Pod's name in a file."""
        Path(os.environ["PODS"]).write_text(name)  # noqa: ASYNC240


if "DAEMON" in os.environ:
    NOTED = Path(os.environ["DAEMON"])

    @kopf.daemon("example.dev", "v1", "greetings", cancellation_backoff=20)
    async def lasting(stopped: kopf.DaemonStopped, **_: Any) -> None:
        """Take a while to end, and note it in a file."""
        NOTED.write_text("begun")  # noqa: ASYNC240 (it is a test)
        await stopped.wait()
        await asyncio.sleep(1)
        NOTED.write_text("ended")  # noqa: ASYNC240


if __name__ == "__main__":
    raise SystemExit(manager.run(["--all-namespaces", *sys.argv[1:]]))
