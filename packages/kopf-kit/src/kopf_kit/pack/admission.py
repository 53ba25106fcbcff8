"""The webhooks of an operator, as a webhook configuration has them.

They are functions that its code declares with kopf-runtime, which also asks kopf's handlers beside
them, or the handlers of an operator on plain kopf. The latter are asked as kopf itself would
configure it, except that nobody asks about the deletions of kinds whose handlers kopf would not
call, and that what the control plane does with the operator's own kinds is left out, so that
namespaces and garbage are deleted although it does not answer.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_kit.pack import adopted, registered
from kopf_kit.rig import reading
from kopf_kit.rig.run import HackError
from kopf_runtime.declaring import admission as runtime

if TYPE_CHECKING:
    from kopf_kit.pack.project import Project

Manifest = dict[str, Any]
#: Runs an adopted operator, and answers the API server.
_SERVER = Path(__file__).parent / "reference" / "plain" / "webhooks.py"
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
    """Return the webhooks of an operator; raise HackError if one cannot be configured."""
    if not project.adopted:
        return declared(project.admission)
    if project.adopted.command:  # it serves them in its own way
        return ()
    module, root = project.adopted.module, project.root
    answer = registered.read(module, root, project.adopted.environment)
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
        raise HackError(
            f"{module} has webhooks of the same name among {', '.join(h['id'] for h in handlers)}; "
            "give each its own by `id=`, in which upper case and signs do not count"
        )
    return webhooks


def _kopfs(module: str, handler: Manifest, crds: list[Manifest], domain: str) -> Webhook:
    """Return the webhook of a handler, which is as `handlers.py` prints it."""
    group, plural = registered.resource(handler["group"], handler["name"], crds) or ("", "")
    version = handler["version"] or _preferred(group, plural, crds)
    if not plural or not version:
        raise HackError(
            f"{module}: of what the webhook {handler['id']} is for, only a cluster knows group, "
            "version and plural; name all three, as in @kopf.on.validate('apps', 'v1', "
            "'deployments')"
        )
    label = re.sub(r"[^a-z0-9]+", "-", handler["id"].lower()).strip("-")
    if not label:
        raise HackError(
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


def server(webhooks: Sequence[Webhook] = ()) -> str:
    """Return the program that runs kopf and serves webhooks of its handlers.

    Without any, it only lets an operator that has some start where no API server can ask it.
    """
    handlers = {each.path: {"webhook": each.handler, "reason": each.kind} for each in webhooks}
    listed = json.dumps(handlers, ensure_ascii=False, indent=4)
    return _SERVER.read_text().replace("]] = {}\n", f"]] = {listed}\n")
