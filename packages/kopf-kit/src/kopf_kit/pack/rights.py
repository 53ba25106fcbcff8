"""The RBAC rules of an operator, generated from what its code declares.

docs/decisions/0023-one-source-for-crd-rights-and-charts.md says why they are generated.
"""

from typing import Any

from kopf_runtime import Manager, Right
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Update

Rule = dict[str, list[str]]

READ = ("get", "list", "watch")
#: With which the runtime elects its leader.
LEASES: Rule = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "create", "update"],
}
#: Replacing a child means creating and deleting it. Server-side apply creates one with a patch, for
#: which the API server requires both rights. OpenShift asks for `delete` even where nothing is ever
#: deleted: only who may delete an object may set its owner reference (admission plugin
#: OwnerReferencesPermissionEnforcement).
CHANGE = {
    Update.RECREATE: ("create", "delete"),
    Update.APPLY: ("create", "patch", "delete"),
    Update.CREATE: ("create", "patch", "delete"),
}
HOW = {
    Update.RECREATE: "replaced",
    Update.APPLY: "changed in place",
    Update.CREATE: "created once",
}


def rules(operator: Manager[Any]) -> list[tuple[str, Rule]]:
    """Return the rules for each watched namespace, each with its reason."""
    rights: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def allow(group: str, resource: str, verbs: tuple[str, ...], why: str) -> None:
        former, had = rights.get((group, resource), (why, ()))
        rights[group, resource] = former, tuple(dict.fromkeys((*had, *verbs)))

    for controller in operator.controllers:
        kind = controller.kind
        if controller.declaration.finalize is not None:
            why = f"{_all(kind)} are read; the finalizer is put on and taken off."
            allow(kind.group, kind.plural, (*READ, "patch"), why)
        else:
            why = f"{_all(kind)} are read only: what a user declared is never written to."
            allow(kind.group, kind.plural, READ, why)
        why = f"The operator writes the status of each {kind.kind}."
        allow(kind.group, f"{kind.plural}/status", ("patch",), why)
        for child, owned in controller.declaration.owned.items():
            how = HOW[owned.update]
            why = f"A {kind.kind} owns {_all(child)}; they are {how}."
            allow(child.group, child.plural, (*READ, *CHANGE[owned.update]), why)
        for watched in controller.declaration.watched:
            allow(watched.group, watched.plural, READ, f"{_all(watched)} are watched.")
        for named, read in controller.declaration.read.items():
            verbs = READ if read.every is None else ("get",)
            allow(named.group, named.plural, verbs, f"A {kind.kind} names {_all(named)}.")
        for mapped in controller.declaration.mapped:
            allow(mapped.group, mapped.plural, READ, f"{_all(mapped)} are watched.")
    why = "The operator records Events, and patches the count of repeated ones."
    allow("", "events", ("create", "patch"), why)
    declared = [
        (why, {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)})
        for (group, resource), (why, verbs) in rights.items()
    ]
    return declared + [_further(right) for right in operator.further_rights]


def _further(right: Right) -> tuple[str, Rule]:
    """Return the rule of a right that an author declares, with its reason."""
    rule = {
        "apiGroups": [right.group],
        "resources": [*right.resources],
        **({"resourceNames": [*right.names]} if right.names else {}),
        "verbs": [*right.verbs],
    }
    return " ".join(right.why.split()) or "The operator's own code needs it.", rule


def _all(kind: Kind) -> str:
    """Return the plural of a kind's name in a text, such as `Widgets`."""
    plural = kind.plural
    return kind.kind + plural[len(kind.kind) :] if plural.startswith(kind.kind.lower()) else plural
