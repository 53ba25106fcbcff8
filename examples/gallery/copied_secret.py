"""A Secret, copied into each Namespace with the label copies=NAME, and kept up to date there."""

from collections.abc import Iterable

from msgspec import field

import kopf_runtime as kr

LABEL = "copies"
#: The Namespace of the Secrets that may be copied.
SOURCE = "shared-secrets"


class Secret(kr.Object):
    """What is copied of a Secret."""

    data: dict[str, str] = field(default_factory=dict)
    type: str = "Opaque"


def named(namespace: kr.Object) -> list[tuple[str, str]]:
    """Return the Secret that a Namespace asks for."""
    name = (namespace.metadata.labels or {}).get(LABEL)
    return [(SOURCE, name)] if name and namespace.metadata.name != SOURCE else []


manager = kr.Manager("copied-secret", kr.Settings)
namespaces = manager.controller_for(kr.kinds.NAMESPACE)
namespaces.reads(kr.kinds.SECRET, Secret, keys=named, transform=lambda it: (it.type, it.data))
namespaces.owns(kr.kinds.SECRET, prune=True)


@namespaces.desired
def desired(namespace: kr.Object, context: kr.Context[kr.Settings]) -> Iterable[kr.Manifest]:
    """Return the copy, if a Namespace asks for one."""
    for source, name in named(namespace):
        type_, data = context.read(kr.kinds.SECRET, name, source)
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace.metadata.name},
            "type": type_,
            "data": data,
        }


if __name__ == "__main__":
    raise SystemExit(manager.run())
