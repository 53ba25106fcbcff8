"""The operator of stores.py with handlers of kopf beside it.

test_neighbours.py describes it to the fault suite, which runs this file as a program.
"""

from typing import Any

import kopf

import kopf_runtime as kr
from faults.stores import manager

NOTE = kr.Kind("neighbours.example.dev", "v1", "notes", "Note")
#: The annotation of what a handler has seen.
SEEN = "seen"


@kopf.on.startup()
async def scan(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Have kopf notice kinds that come and go, if it has the rights."""
    settings.scanning.disabled = False


@kopf.on.event("pods")
@kopf.on.event(NOTE.group, NOTE.version, NOTE.plural)
async def see(annotations: kopf.Annotations, patch: kopf.Patch, **_: Any) -> None:
    """Mark an object."""
    if SEEN not in annotations:
        patch.metadata.annotations[SEEN] = "yes"


if __name__ == "__main__":
    raise SystemExit(manager.run())
