"""What the handlers of an adopted operator watch, and the rights that kopf needs for it.

What they do beyond that, nothing says: PROJECT names a Role with it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_kit.pack import adopted, registered
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


def handlers(module: str, root: Path, crds: list[dict[str, Any]]) -> Handlers:
    """Return what the handlers of a module watch; raise HackError if nothing can be read of it."""
    answer = registered.read(module, root)
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
    return Handlers(tuple(watched), tuple(dict.fromkeys(unknown)), webhooks)


def rules(project: "Project") -> Iterator[tuple[str, Rule]]:
    """Yield the rules for each watched namespace, each with its reason."""
    yield from kopfs(project)
    if project.adopted and project.adopted.rights:
        file = project.root / project.adopted.rights
        for rule in given(file):
            yield f"The handlers need it: {file.name} has it.", rule


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
    for watch in handlers(project.adopted.module, project.root, crds).watched:
        group, plural, _ = watch
        verbs = ["list", "watch", "patch"] if watch.changes else ["list", "watch"]
        noted = "; kopf notes on each of them how far its handlers are." if watch.changes else "."
        yield f"{plural} are watched{noted}", _rule(group, [plural], verbs)
        if watch.changes and f"{plural}.{group}" in with_status:
            why = f"What handlers of {plural} return, they report."
            yield why, _rule(group, [f"{plural}/status"], ["patch"])
    yield "What handlers log goes into Events.", _rule("", ["events"], ["create"])


def given(file: Path) -> list[Rule]:
    """Return the rules of the Roles in a file; raise HackError if something else is in it."""
    manifests = adopted.manifests_in(file, "`rights` names a file with a Role")
    roles = [
        manifest["rules"]
        for manifest in manifests
        if isinstance(manifest, dict)
        and manifest.get("kind") in ("Role", "ClusterRole")
        and manifest.get("rules")
    ]
    if not roles or len(roles) < len(manifests):
        raise HackError(f"{file} must have nothing but Roles or ClusterRoles with `rules`")
    return [rule for role in roles for rule in role]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
