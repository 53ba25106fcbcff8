"""Restarts each Deployment that names a Secret, such as a certificate's, when that changes."""

import hashlib
from typing import Any

from msgspec import field

import kopf_runtime as kr

NAMED = "restart-with/secret"
HASH = "restart-with/hash"


class Secret(kr.Object):
    """What is read of a Secret."""

    data: dict[str, str] = field(default_factory=dict)


def named(deployment: kr.Object) -> list[str]:
    """Return the Secret that an annotation names."""
    name = (deployment.metadata.annotations or {}).get(NAMED)
    return [name] if name else []


def hashed(secret: Secret) -> str:
    """Return a hash of what a Secret holds."""
    return hashlib.sha256(repr(sorted(secret.data.items())).encode()).hexdigest()[:16]


manager = kr.Manager("restarted-consumer", kr.Settings)
deployments = manager.controller_for(kr.kinds.DEPLOYMENT)
deployments.reads(kr.kinds.SECRET, Secret, keys=named, transform=hashed)


@deployments.contribution
def contribution(deployment: kr.Object, context: kr.Context[kr.Settings]) -> dict[str, Any] | None:
    """Return the annotation of the Pods, whose change replaces them one after the other."""
    for name in named(deployment):
        annotations = {HASH: context.read(kr.kinds.SECRET, name)}
        return {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    return None


if __name__ == "__main__":
    raise SystemExit(manager.run())
