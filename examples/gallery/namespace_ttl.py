"""Deletes each Namespace with the label ttl=SECONDS so many seconds after it was created."""

from datetime import datetime
from typing import Any

import kopf_runtime as kr

manager = kr.Manager("namespace-ttl", kr.Settings)
namespaces = manager.controller_for(kr.kinds.NAMESPACE)
manager.rbac(kr.PolicyRule("", ["namespaces"], ["delete"], why="They expire."))


def rest(namespace: kr.Object, context: kr.CallContext[Any]) -> float:
    """Return the seconds that a Namespace has left."""
    ttl = (namespace.metadata.labels or {}).get("ttl", "")
    created = namespace.metadata.creation_timestamp
    if not (ttl.isdecimal() and created) or namespace.metadata.deletion_timestamp:
        return 86400.0  # it is looked at again when its labels change
    return datetime.fromisoformat(created).timestamp() + int(ttl) - context.now


@namespaces.sync(every=lambda namespace, context: max(1.0, rest(namespace, context)))
async def expire(namespace: kr.Object, context: kr.CallContext[kr.Settings]) -> None:
    """Delete a Namespace that has no time left."""
    if rest(namespace, context) <= 0:
        path = kr.kinds.NAMESPACE.path(None, namespace.metadata.name)
        only = {"preconditions": {"uid": namespace.metadata.uid}}
        await context.client.ask("DELETE", path, only)


if __name__ == "__main__":
    raise SystemExit(manager.run())
