"""The operator of stores.py as the fault suite sees it: what holds data is never deleted."""

from collections.abc import Mapping
from typing import Any

from faults import stores
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.under_test import Parent
from kopf_runtime.declaring.kinds import Kind

_TEXT = {"type": "string"}
#: A list whose items have a key of their own.
MEMBERS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["id"],
    "items": {
        "type": "object",
        "required": ["id"],
        "properties": {"id": _TEXT, "role": _TEXT, "zone": _TEXT},
    },
}


def definition(kind: Kind, **fields: Any) -> Raw:
    """Return the CRD of a kind whose spec has these fields."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": fields},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": kind.plural, "kind": kind.kind},
        },
    }


class Stores(Parent):
    """An operator of children that hold data, of which it has to delete none."""

    program: tuple[str, ...] = (stores.__file__,)
    manager = stores.manager
    keeps = True
    quick = ("alter", "heal")
    thorough = False

    def install(self) -> list[Raw]:
        return [*super().install(), definition(stores.PART, members=MEMBERS)]

    def spec(self, text: str) -> Raw:
        return {"text": text}

    @property
    def writes(self) -> Mapping[str, int]:
        every = self._children + 1
        return {**super().writes, "edit": every, "burst": every}


STORE = Stores()
#: Whose operators the conformance suite has.
SUBJECTS = (STORE,)
