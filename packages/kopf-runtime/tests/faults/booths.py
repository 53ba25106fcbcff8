"""An operator that uses what an author may declare beside children and `sync`.

test_features.py describes it to the fault suite, which runs this file as a program.
"""

from collections.abc import Iterable
from typing import Any

import kopf_runtime as kr

CLAIM = kr.kinds.PERSISTENT_VOLUME_CLAIM
#: A kind of which an annotation is read.
NOTE = kr.kinds.SERVICE_ACCOUNT
#: A kind that is installed later.
PLAQUE = kr.Kind("late.example.dev", "v1", "plaques", "Plaque")


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: str = ""
    spot: str = ""


class Secret(kr.Object):
    """A Secret that a Booth names."""

    data: dict[str, str] = {}  # noqa: RUF012 (msgspec copies it)


@kr.custom_resource("example.dev", "v1", "booths")
class Booth(kr.Resource):
    """A Booth has a ConfigMap with its text, a claim, and a Plaque where there are such."""

    spec: Spec = Spec()


manager = kr.Manager("booth-operator", kr.Settings)
controller = manager.controller_for(Booth, transform=lambda booth: len(booth.spec.text))
controller.owns(kr.kinds.CONFIG_MAP, after=(CLAIM,))
controller.owns(CLAIM, deletion_policy=kr.RETAIN)
controller.owns(PLAQUE, optional=True)
controller.reads(
    kr.kinds.SECRET,
    Secret,
    keys=lambda _: ["key"],
    transform=lambda secret: secret.data.get("key", ""),
)
controller.reads(
    NOTE,
    keys=lambda _: ["note"],
    every=1,
    transform=lambda note: (note.metadata.annotations or {}).get("note", ""),
)
controller.watches(
    kr.kinds.SERVICE, to=lambda service: [(service.metadata.labels or {}).get("booth", "none")]
)
controller.unique("spot", lambda booth: [booth.spec.spot] if booth.spec.spot else [])
controller.gauge("text_length", "Length of the text.", lambda booth: booth.view)
checks = manager.metrics.counter("checks", "Calls of `check`.", "name")


@controller.desired
def desired(booth: Booth, context: kr.Context[kr.Settings]) -> Iterable[dict[str, Any]]:
    """Return the children, the ConfigMap first, though it is made after the claim."""
    metadata = {"name": f"booth-{booth.metadata.name}"}
    data = {
        "text": booth.spec.text,
        "key": context.read(kr.kinds.SECRET, "key"),
        "note": context.read(NOTE, "note"),
        "checked": context.check_result or "",
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    yield {"apiVersion": "v1", "kind": CLAIM.kind, "metadata": metadata, "spec": claim}
    yield {"apiVersion": PLAQUE.api_version, "kind": PLAQUE.kind, "metadata": metadata}


@controller.check(every=300, on=(kr.kinds.SERVICE,))
async def check(booth: Booth, context: kr.CallContext[kr.Settings]) -> str:
    """Return the text once all that is wanted exists."""
    checks.labels(booth.metadata.name).inc()
    return booth.spec.text if context.children_of(kr.kinds.CONFIG_MAP) else ""


if __name__ == "__main__":
    raise SystemExit(manager.run())
