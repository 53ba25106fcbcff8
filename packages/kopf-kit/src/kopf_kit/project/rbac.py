"""The RBAC rules that follow from an operator's declaration, or from its handlers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_kit.project import adopted, granted, registered
from kopf_kit.project.accounts import Called
from kopf_kit.project.granted import Grants
from kopf_kit.rig.run import KitError
from kopf_runtime import Manager, PolicyRule
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Update

if TYPE_CHECKING:  # `kopf-kit adopt` reads CRDs and handlers where there is no PROJECT yet
    from kopf_kit.project.definition import Project


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
HOW = {Update.RECREATE: "replaced", Update.APPLY: "changed in place", Update.CREATE: "created once"}


def rules(operator: Manager[Any]) -> list[tuple[str, Rule]]:
    """Return the rules for each watched namespace, each with its reason."""
    rights: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def allow(group: str, resource: str, verbs: tuple[str, ...], why: str) -> None:
        former, had = rights.get((group, resource), (why, ()))
        rights[group, resource] = former, tuple(dict.fromkeys((*had, *verbs)))

    for controller in operator.controllers:
        kind, foreign = controller.kind, controller.declaration.foreign
        if foreign is not None:
            adds = controller.declaration.contribution or controller.declaration.finalize
            writes = ("patch",) if adds or foreign.annotation else ()
            what = "read, and what is declared is added to them." if writes else "read only."
            allow(kind.group, kind.plural, (*READ, *writes), f"{_all(kind)} are {what}")
        elif controller.declaration.finalize is not None:
            why = f"{_all(kind)} are read; the finalizer is put on and taken off."
            allow(kind.group, kind.plural, (*READ, "patch"), why)
        else:
            why = f"{_all(kind)} are read only: what a user declared is never written to."
            allow(kind.group, kind.plural, READ, why)
        if foreign is None or foreign.condition:
            told = f"the condition {foreign.condition}" if foreign is not None else "the status"
            why = f"The operator writes {told} of each {kind.kind}."
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
    return declared + [_further(right) for right in operator.policy_rules]


def _further(right: PolicyRule) -> tuple[str, Rule]:
    """Return the rule of a right that an author declares, with its reason."""
    rule = {
        "apiGroups": [right.group],
        "resources": [*right.resources],
        **({"resourceNames": [*right.resource_names]} if right.resource_names else {}),
        "verbs": [*right.verbs],
    }
    return " ".join(right.why.split()) or "The operator's own code needs it.", rule


def _all(kind: Kind) -> str:
    """Return the plural of a kind's name in a text, such as `Widgets`."""
    plural = kind.plural
    return kind.kind + plural[len(kind.kind) :] if plural.startswith(kind.kind.lower()) else plural


#: Rights in the whole cluster with which kopf notices new kinds and namespaces; it works without.
SCANNING = {
    "apiGroups": ["", "apiextensions.k8s.io"],
    "resources": ["namespaces", "customresourcedefinitions"],
    "verbs": ["list", "watch"],
}
#: Why an operator is not for OLM.
NO_OLM = (
    "objects of {} are in no namespace, so OLM would have the operator watch all, and then give "
    "what its roles have for its own namespace in all, too"
)


class Watched(NamedTuple):
    """A resource that handlers watch."""

    group: str
    plural: str
    #: The registries of kopf that its handlers are in, as `handlers.py` has them.
    by: set[str]

    @property
    def changes(self) -> bool:
        """Whether kopf notes on an object how far they are, and puts its finalizer on it."""
        return not self.by.isdisjoint({"_changing", "_spawning"})

    @property
    def ends(self) -> bool:
        """Whether it also notes that they have ended."""
        return "_changing" in self.by


class Handlers(NamedTuple):
    """What the handlers of an operator ask of the API server."""

    watched: tuple[Watched, ...] = ()
    #: What they watch under names of which only a cluster knows the kinds.
    unknown: tuple[str, ...] = ()
    #: The ids of those that the API server asks before a write.
    webhooks: tuple[str, ...] = ()
    #: The variables that it reads when it is imported, and that are not set.
    unset: tuple[str, ...] = ()
    #: The modules of the repository that are imported with it.
    imported: tuple[str, ...] = ()


def handlers_of(project: "Project") -> Handlers:
    """Return what the handlers of an adopted operator watch."""
    assert project.adopted
    crds, environment = adopted.definitions(project), project.adopted.environment
    return handlers(project.adopted.module, project.root, crds, environment)


def handlers(
    module: str, root: Path, crds: list[dict[str, Any]], environment: Mapping[str, str]
) -> Handlers:
    """Return what the handlers of a module watch; raise KitError if nothing can be read of it."""
    answer = registered.read(module, root, environment)
    resources: dict[tuple[str, str], set[str]] = {}
    unknown = []
    for watch in answer["watched"]:
        resource = registered.resource(watch["group"], watch["name"], crds)
        if resource is None:
            unknown.append(".".join(filter(None, (watch["name"] or "*", watch["group"]))))
        else:
            resources.setdefault(resource, set()).add(watch["by"])
    if not (resources or unknown or answer["webhooks"]):
        raise KitError(
            f"{module} registers no handler of kopf: name the module that `kopf run -m` runs, with "
            "its `@kopf.on` functions"
        )
    watched = (Watched(*resource, by) for resource, by in resources.items())
    webhooks = tuple(webhook["id"] for webhook in answer["webhooks"])
    unset, imported = tuple(answer["unset"]), tuple(answer["imported"])
    return Handlers(tuple(watched), tuple(dict.fromkeys(unknown)), webhooks, unset, imported)


def rights(project: "Project") -> Grants:
    """Return the rights of an adopted operator, each with its reason: kopf's and the author's."""
    assert project.adopted
    grants = granted.split(kopfs(project), adopted.definitions(project))
    if project.adopted.rights:
        grants.add(given(project))
    return grants


def olm_modes(project: "Project") -> tuple[str, ...]:
    """Return the install modes with which OLM gives no more than the chart; raise KitError.

    It gives what an operator has in its own namespace wherever that watches.
    """
    modes = project.install_modes[-1:] if project.of_the_cluster else project.install_modes
    if project.adopted and project.adopted.rights and given(project).own:
        modes = tuple(mode for mode in modes if mode == "OwnNamespace")
    elif project.adopted and project.adopted.watch_namespaces and len(modes) > 1:
        modes = modes[:-1]
    if not modes:
        raise KitError(
            f"{project.root / 'PROJECT'}: {NO_OLM.format(', '.join(project.of_the_cluster))}: "
            "write `olm: false` there"
        )
    return modes


def given(project: "Project") -> Grants:
    """Return what the author's roles give beyond what kopf needs."""
    assert project.adopted
    files = [project.root / name for name in project.adopted.roles]
    crds, watched = adopted.definitions(project), project.adopted.watch_namespaces
    called = Called(project.name, project.adopted.account, "`account` in PROJECT")
    return granted.read(files, called, crds, watched)


def kopfs(project: "Project") -> Iterator[tuple[str, Rule]]:
    """Yield those of the rules that kopf itself needs."""
    assert project.adopted
    crds = adopted.definitions(project)
    with_status = {
        crd["metadata"]["name"]
        for crd in crds
        for version in crd["spec"]["versions"]
        if "status" in version.get("subresources", {})
    }
    for watch in handlers_of(project).watched:
        group, plural, _ = watch
        verbs = ["list", "watch", "patch"] if watch.changes else ["list", "watch"]
        noted = "; kopf notes on each of them how far its handlers are." if watch.changes else "."
        yield f"{plural} are watched{noted}", _rule(group, [plural], verbs)
        if watch.changes and f"{plural}.{group}" in with_status:
            why = f"What handlers of {plural} return, they report."
            yield why, _rule(group, [f"{plural}/status"], ["patch"])
    yield "What handlers log goes into Events.", _rule("", ["events"], ["create"])


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
