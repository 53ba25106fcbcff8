"""What the handlers of an adopted operator watch, and the rights that kopf needs for it.

What they do beyond that, nothing says: PROJECT names files with roles.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_kit.pack import adopted, granted, registered
from kopf_kit.pack.granted import Grants
from kopf_kit.pack.rights import Rule
from kopf_kit.rig.run import HackError

if TYPE_CHECKING:  # `kopf-kit adopt` reads CRDs and handlers where there is no PROJECT yet
    from kopf_kit.pack.project import Project

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


def handlers_of(project: "Project") -> Handlers:
    """Return what the handlers of an adopted operator watch."""
    assert project.adopted
    crds, environment = adopted.definitions(project), project.adopted.environment
    return handlers(project.adopted.module, project.root, crds, environment)


def handlers(
    module: str, root: Path, crds: list[dict[str, Any]], environment: Mapping[str, str]
) -> Handlers:
    """Return what the handlers of a module watch; raise HackError if nothing can be read of it."""
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
        raise HackError(
            f"{module} registers no handler of kopf: name the module that `kopf run -m` runs, with "
            "its `@kopf.on` functions"
        )
    watched = (Watched(*resource, by) for resource, by in resources.items())
    webhooks = tuple(webhook["id"] for webhook in answer["webhooks"])
    return Handlers(tuple(watched), tuple(dict.fromkeys(unknown)), webhooks, tuple(answer["unset"]))


def rights(project: "Project") -> Grants:
    """Return the rights of an adopted operator, each with its reason: kopf's and the author's."""
    assert project.adopted
    grants = granted.split(kopfs(project), adopted.definitions(project))
    if project.adopted.rights:
        grants.add(given(project))
    return grants


def olm_modes(project: "Project") -> tuple[str, ...]:
    """Return the install modes with which OLM gives no more than the chart; raise HackError.

    It gives what an operator has in its own namespace wherever that watches.
    """
    modes = project.install_modes[-1:] if project.of_the_cluster else project.install_modes
    if project.adopted and project.adopted.rights and given(project).own:
        modes = tuple(mode for mode in modes if mode == "OwnNamespace")
    elif project.adopted and project.adopted.watch_namespaces and len(modes) > 1:
        modes = modes[:-1]
    if not modes:
        raise HackError(
            f"{project.root / 'PROJECT'}: {NO_OLM.format(', '.join(project.of_the_cluster))}: "
            "write `olm: false` there"
        )
    return modes


def given(project: "Project") -> Grants:
    """Return what the author's roles give beyond what kopf needs."""
    assert project.adopted
    files = [project.root / name for name in project.adopted.roles]
    return granted.read(files, adopted.definitions(project), project.adopted.watch_namespaces)


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
