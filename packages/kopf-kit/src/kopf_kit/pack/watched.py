"""What the handlers of an adopted operator watch, and the rights that kopf needs for it.

What they do beyond that, nothing says: PROJECT names a Role with it.
"""

import functools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.version import Version

from kopf_kit.pack import adopted
from kopf_kit.pack.rights import Rule
from kopf_kit.rig import paths
from kopf_kit.rig.run import CommandError, HackError, output

if TYPE_CHECKING:  # `kopf-kit adopt` reads CRDs and handlers where there is no PROJECT yet
    from kopf_kit.pack.project import Project

_READER = Path(__file__).with_name("handlers.py")
_SECONDS = 120
_NO_CLUSTER = {
    "KUBECONFIG": os.devnull,
    "KUBERNETES_SERVICE_HOST": "",
    "PYTHONDONTWRITEBYTECODE": "1",
}
#: The first one of which handlers succeed on the Python of the image.
_OLDEST_KOPF = Version("1.37.3")
#: The kinds of Kubernetes' core group: kopf finds them by the plural, the kind or a short name.
_CORE = {
    "configmaps": ("ConfigMap", "cm"),
    "namespaces": ("Namespace", "ns"),
    "nodes": ("Node", "no"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "pvc"),
    "persistentvolumes": ("PersistentVolume", "pv"),
    "pods": ("Pod", "po"),
    "secrets": ("Secret",),
    "serviceaccounts": ("ServiceAccount", "sa"),
    "services": ("Service", "svc"),
}


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

    watched: tuple[Watched, ...]
    #: What they watch under names of which only a cluster knows the kinds.
    unknown: tuple[str, ...]
    webhooks: tuple[str, ...]


def handlers(module: str, root: Path, crds: list[dict[str, Any]]) -> Handlers:
    """Return what the handlers of a module watch; raise HackError if nothing can be read of it."""
    answer = _read(module, root)
    if Version(answer["kopf"]) < _OLDEST_KOPF:
        raise HackError(
            f"{module} runs with kopf {answer['kopf']}, and the kit packages operators on "
            f"{_OLDEST_KOPF} or newer; upgrade it"
        )
    resources: dict[tuple[str, str], set[str]] = {}
    unknown = []
    for watch in answer["watched"]:
        resource = _resource(watch["group"], watch["name"], crds)
        if resource is None:
            unknown.append(".".join(filter(None, (watch["name"] or "*", watch["group"]))))
        else:
            resources.setdefault(resource, set()).add(watch["by"])
    if not resources and not unknown:
        raise HackError(
            f"{module} registers no handler of kopf: name the module that `kopf run -m` runs, with "
            "its `@kopf.on` functions"
        )
    watched = (Watched(*resource, by) for resource, by in resources.items())
    return Handlers(tuple(watched), tuple(dict.fromkeys(unknown)), tuple(answer["webhooks"]))


def unpackaged(webhooks: Iterable[str]) -> str:
    """Return what to do about webhook handlers of kopf, which the API server would have to call."""
    return (
        f"the webhooks {', '.join(webhooks)} are kopf's, which the kit does not package, so the "
        "API server would not ask them; declare them with @controller.validate and "
        "@controller.default of kopf-runtime, or write the Service, the webhook configurations and "
        "the rights to them into the chart's templates, and set settings.admission.server"
    )


def check_webhooks(project: "Project", module: str, webhooks: Sequence[str]) -> None:
    """Raise HackError if handlers are webhooks, and no template of the author's configures them."""
    templates = (project.written_chart / "templates").rglob("*.yaml")
    if webhooks and not any("WebhookConfiguration" in file.read_text() for file in templates):
        raise HackError(f"{module}: {unpackaged(webhooks)}")


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


def python(root: Path) -> Path:
    """Return the operator's own Python: its repository's, or that of the active environment."""
    folders = (root / ".venv", Path(os.environ.get("VIRTUAL_ENV", os.devnull)))
    pythons = (folder / "bin" / "python" for folder in folders)
    return next((python for python in pythons if python.exists()), Path(sys.executable))


@functools.cache
def _read(module: str, root: Path) -> Any:
    """Return what `handlers.py` prints about a module, which is imported without a cluster."""
    folder = paths.sources(root, module.partition(".")[0])
    try:
        printed = output(
            [python(root), _READER, module], cwd=folder, env=_NO_CLUSTER, timeout=_SECONDS
        )
    except CommandError as error:
        raise HackError(
            f"{module} cannot be imported in {folder} without a cluster: {error.reason}; install "
            "what it needs, and move what asks a cluster into a function with @kopf.on.startup()"
        ) from error
    except HackError as error:
        raise HackError(
            f"{module} is still being imported after {_SECONDS} seconds: it must only register "
            "handlers then; move what else it does into a function with @kopf.on.startup()"
        ) from error
    return json.loads(printed.splitlines()[-1])


def _resource(
    group: str | None, name: str | None, crds: list[dict[str, Any]]
) -> tuple[str, str] | None:
    """Return the group and the plural of what kopf finds under a name, if that can be known."""
    for spec in (crd["spec"] for crd in crds):
        names = spec["names"]
        called = names["plural"], names["kind"], names.get("singular"), *names.get("shortNames", ())
        if name in called and group in (None, spec["group"]):
            return spec["group"], names["plural"]
    if group in (None, ""):
        for plural, called in _CORE.items():
            if name in (plural, plural.removesuffix("s"), *called):
                return "", plural
    # Only an API server knows the plural of a kind; most handlers are registered for plurals.
    if group and name and name.islower() and name.endswith("s"):
        return group, name
    return None
