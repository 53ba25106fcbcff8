"""What an author's code registers with kopf, and its webhooks."""

import functools
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.version import Version

from kopf_kit.project import adopted
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import CommandError, KitError, output
from kopf_runtime.declaring import admission as runtime

if TYPE_CHECKING:
    from kopf_kit.project.definition import Project


#: Prints what a module registers, in the operator's own Python.
READER = Path(__file__).with_name("handlers.py")
_SECONDS = 120
#: A kubeconfig that a module may load when it is imported; nothing answers there.
NO_CLUSTER = Path(__file__).with_name("no-cluster.yaml")
#: The variables of this machine with which the operator's Python runs.
_KEPT = re.compile("HOME|LANG|LC_.*|PATH|PYTHON.*|TMPDIR|TZ|USER|VIRTUAL_ENV|.*_proxy|SSL_CERT_.*")
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


def python(root: Path) -> Path:
    """Return the operator's own Python: its repository's, or that of the active environment."""
    folders = (root / ".venv", Path(os.environ.get("VIRTUAL_ENV", os.devnull)))
    pythons = (folder / "bin" / "python" for folder in folders)
    return next((python for python in pythons if python.exists()), Path(sys.executable))


def read(module: str, root: Path, environment: Mapping[str, str]) -> Any:
    """Return what `handlers.py` prints about a module, which is imported without a cluster.

    Of this machine's environment it gets what Python needs, and nothing that could decide which
    handlers it registers. Raise KitError if it cannot be imported, or if its kopf is too old.
    """
    return _read(module, root, tuple(sorted(environment.items())))


@functools.cache
def _read(module: str, root: Path, environment: tuple[tuple[str, str], ...]) -> Any:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise KitError(
            f"{top} is also a module of Python's own, which `kopf run -m {module}` imports: give "
            "the operator's another name"
        )
    folder = paths.sources(root, top)
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    no_cluster = {"KUBECONFIG": str(NO_CLUSTER), "PYTHONDONTWRITEBYTECODE": "1"}
    variables = (
        kept
        | no_cluster
        | {name: text for name, text in environment if name not in ("PATH", "PYTHONPATH")}
    ).items()
    program = ("env", "-i", *(f"{name}={value}" for name, value in variables), str(python(root)))
    try:
        printed = output([*program, str(READER), module], cwd=folder, timeout=_SECONDS)
    except CommandError as error:
        raise KitError(
            f"{module} cannot be imported in {folder} without a cluster: {error.reason}; install "
            "what it needs, and move what asks a cluster into a function with @kopf.on.startup()"
        ) from error
    except KitError as error:
        raise KitError(
            f"{module} is still being imported after {_SECONDS} seconds: it must only register "
            "handlers then; move what else it does into a function with @kopf.on.startup()"
        ) from error
    return judge(module, folder, printed)


def judge(module: str, where: Path | str, printed: str) -> Any:
    """Return what `handlers.py` printed; raise KitError if it is of a failure or an old kopf.

    The module may print, too, before and after.
    """
    answers = [line for line in printed.splitlines() if line.startswith(('{"kopf"', '{"failed"'))]
    if not answers:
        raise KitError(
            f"{module} ends Python when it is imported in {where}: it must only register handlers "
            "then; move what else it does into a function with @kopf.on.startup()"
        )
    answer = json.loads(answers[-1])
    if failed := answer.get("failed"):
        way = " below `if __name__ == '__main__':` alone"
        if unset := ", ".join(answer["unset"]):
            way = (
                f"; it reads the variables {unset}, which are not set: give them by --env "
                "NAME=VALUE, or as `environment` in PROJECT"
            )
        raise KitError(f"{module} cannot be imported in {where}: {failed}{way}")
    if Version(answer["kopf"]) < _OLDEST_KOPF:
        raise KitError(
            f"{module} runs with kopf {answer['kopf']}, and the kit packages operators "
            f"on {_OLDEST_KOPF} or newer; upgrade it"
        )
    return answer


def resource(
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


Manifest = dict[str, Any]
#: Runs an adopted operator, and answers the API server.
_SERVER = paths.KIT / "reference" / "plain" / "webhooks.py"
#: As Kubernetes ranks the versions of a group.
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES = ("alpha", "beta", None)


class Webhook(NamedTuple):
    """What the API server asks the operator before it stores an object."""

    #: `validating` or `mutating`.
    kind: str
    #: Where the operator answers.
    path: str
    #: Its entry in a webhook configuration, except the address.
    entry: Manifest
    #: The id of kopf's handler.
    handler: str = ""


def of(project: "Project") -> Sequence[Webhook]:
    """Return the webhooks of an operator; raise KitError if one cannot be configured."""
    if not project.adopted:
        return declared(project.admission)
    if project.adopted.command:  # it serves them in its own way
        return ()
    module, root = project.adopted.module, project.root
    answer = read(module, root, project.adopted.environment)
    if not answer["webhooks"] or configured(project):
        return ()
    return kopfs(module, answer["webhooks"], adopted.definitions(project), project.domain)


def configured(project: "Project") -> bool:
    """Return whether the author's own templates have webhook configurations."""
    templates = (project.written_chart / "templates").rglob("*.yaml")
    return any("WebhookConfiguration" in reading.text(file) for file in templates)


def declared(functions: Sequence[runtime.Webhook]) -> list[Webhook]:
    """Return the webhooks of functions that are declared with kopf-runtime."""
    return [Webhook(function.kind, function.path, _declared(function)) for function in functions]


def _declared(function: runtime.Webhook) -> Manifest:
    conditions = function.match_conditions.items()
    return {
        "name": function.name,
        "rules": [
            {
                "apiGroups": [function.group],
                "apiVersions": [*function.versions],
                "resources": [function.resource],
                "operations": [*function.operations],
            }
        ],
        "failurePolicy": function.failure_policy,
        "timeoutSeconds": function.timeout_seconds,
        "sideEffects": function.side_effects,
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": name, "expression": text} for name, text in conditions],
        "namespaceSelector": {},
        **({"objectSelector": selector} if (selector := dict(function.object_selector)) else {}),
    }


def kopfs(
    module: str, handlers: Sequence[Manifest], crds: list[Manifest], domain: str
) -> tuple[Webhook, ...]:
    """Return the webhooks of the handlers that a module registers with kopf.

    `crds` are the operator's own, and `domain` ends the names for kinds of the core group.
    """
    webhooks = tuple(_kopfs(module, handler, crds, domain) for handler in handlers)
    names = [(webhook.kind, webhook.entry["name"]) for webhook in webhooks]
    ids = {(webhook.path, webhook.handler) for webhook in webhooks}
    if len({*names}) < len(names) or len(dict(ids)) < len(ids):
        raise KitError(
            f"{module} has webhooks of the same name among {', '.join(h['id'] for h in handlers)}; "
            "give each its own by `id=`, in which upper case and signs do not count"
        )
    return webhooks


def _kopfs(module: str, handler: Manifest, crds: list[Manifest], domain: str) -> Webhook:
    """Return the webhook of a handler, which is as `handlers.py` prints it."""
    group, plural = resource(handler["group"], handler["name"], crds) or ("", "")
    version = handler["version"] or _preferred(group, plural, crds)
    if not plural or not version:
        raise KitError(
            f"{module}: of what the webhook {handler['id']} is for, only a cluster knows group, "
            "version and plural; name all three, as in @kopf.on.validate('apps', 'v1', "
            "'deployments')"
        )
    label = re.sub(r"[^a-z0-9]+", "-", handler["id"].lower()).strip("-")
    if not label:
        raise KitError(
            f"{module}: {handler['id']} cannot name a webhook; give it an `id=` of Latin letters"
        )
    own = any((group, plural) == _names(crd) for crd in crds)
    resources = "/".join(filter(None, (plural, handler["subresource"])))
    operations = handler["operations"]
    if handler["kind"] == "mutating" and operations == ["*"]:
        operations = ["CREATE", "UPDATE", "CONNECT"]
    entry = {
        "name": f"{label}.{plural}.{group or domain}",
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [resources],
                "operations": operations,
            }
        ],
        **handler["settings"],
        "admissionReviewVersions": ["v1"],
        "matchConditions": [
            {"name": name, "expression": text} for name, text in runtime.EXEMPT.items() if own
        ],
        "namespaceSelector": {},
    }
    return Webhook(handler["kind"], f"/{handler['kind']}/{label}", entry, handler["id"])


def _names(crd: Manifest) -> tuple[str, str]:
    return crd["spec"]["group"], crd["spec"]["names"]["plural"]


def _preferred(group: str, plural: str, crds: list[Manifest]) -> str:
    """Return the version in which kopf serves a resource; empty if only a cluster knows it.

    It is the one that the API server prefers for the whole group.
    """
    if not group:
        return "v1"
    served = {
        _names(crd): [version["name"] for version in crd["spec"]["versions"] if version["served"]]
        for crd in crds
        if crd["spec"]["group"] == group
    }
    best = max((version for each in served.values() for version in each), key=_rank, default="")
    return best if best in served.get((group, plural), ()) else ""


def _rank(version: str) -> tuple[int, ...]:
    if not (match := _VERSION.fullmatch(version)):
        return (-1,)
    return _STAGES.index(match[2]), int(match[1]), int(match[3] or 0)


def program(project: "Project") -> str:
    """Return the program that runs kopf on this machine, where modules are beside no packages.

    As `kopf run` does, it looks for modules in the author's folder once kopf is loaded.
    """
    first = "import sys\nsys.path[:] = filter(None, sys.path)\nimport kopf.cli\n"
    # kopf does not start webhooks without a server.
    last = server() if of(project) else "kopf.cli.main()\n"
    return f"{first}sys.path.insert(0, {str(project.sources)!r})\n{last}"


def server(webhooks: Sequence[Webhook] = ()) -> str:
    """Return the program that runs kopf and serves webhooks of its handlers.

    Without any, it only lets an operator that has some start where no API server can ask it.
    """
    handlers = {each.path: {"webhook": each.handler, "reason": each.kind} for each in webhooks}
    listed = json.dumps(handlers, ensure_ascii=False, indent=4)
    return _SERVER.read_text().replace("]] = {}\n", f"]] = {listed}\n")
