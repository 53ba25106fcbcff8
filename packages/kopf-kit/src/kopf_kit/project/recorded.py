"""The rights that an operator used, from the audit log of an API server.

Only the name of its user is asked for, so the operator may be written in any language. What counts
is what it asked, not whether it was allowed to.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kopf_kit.project import documents
from kopf_kit.project.rights import Rule
from kopf_kit.rig.run import KitError

#: What Kubernetes lets every user do, by its roles `system:discovery` and `system:basic-user`.
_EVERYBODYS: tuple[Rule, ...] = (
    {
        "nonResourceURLs": [
            *("/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/readyz"),
            *("/openapi", "/openapi/*", "/version", "/version/"),
        ],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
        "resources": [
            *("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ],
        "verbs": ["create"],
    },
)
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


class Request(NamedTuple):
    """The right that a request needs; `resource` is a path if it is for no resource."""

    group: str
    resource: str
    verb: str
    #: Empty where it is about all objects, or about a new one.
    name: str = ""

    def __str__(self) -> str:
        kind, slash, subresource = self.resource.partition("/")
        of_group = f".{self.group}" if self.group else ""
        return f"{self.verb} {kind}{of_group}{slash}{subresource}"


#: Each request once, with the path of the first one.
Requests = dict[Request, str]


def requests(files: Iterable[Path], user: str = "") -> Requests:
    """Return what a user asked in audit logs, or what all users did if none is named.

    Raise KitError where a file is no audit log.
    """
    used: Requests = {}
    for file, number, line in _lines(files):
        try:
            event = json.loads(line)
            who = (event.get("impersonatedUser") or event["user"])["username"]
            of_event = [*_asked(event)] if user in ("", who) else []
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KitError(
                f"{file}:{number} is not an event of a Kubernetes audit log: let the API server "
                "write one with --audit-log-path, in its form `json`"
            ) from error
        for request, path in of_event:
            used.setdefault(request, path)
    return beyond(used, _EVERYBODYS)


def _lines(files: Iterable[Path]) -> Iterator[tuple[Path, int, str]]:
    for file in files:
        try:
            with file.open() as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith("\n"):  # the last one may still be written
                        yield file, number, line
        except (OSError, UnicodeError) as error:
            raise KitError(f"{file} cannot be read: {error}") from error


def _asked(event: Mapping[str, Any]) -> Iterator[tuple[Request, str]]:
    """Yield what an event asked the right for, with its path."""
    verb, where = event["verb"], event.get("objectRef")
    if where is None:
        path = event["requestURI"].partition("?")[0]
        yield Request("", path, verb), path
        return
    group, kind, name = where.get("apiGroup", ""), where["resource"], where.get("name", "")
    resource = "/".join(filter(None, (kind, where.get("subresource"))))
    prefix = f"/apis/{group}" if group else "/api"
    # Those of tests have other names each time.
    space = "namespaces/*" if where.get("namespace") and kind != "namespaces" else ""
    parts = (prefix, where.get("apiVersion"), space, kind, name, where.get("subresource"))
    path = "/".join(filter(None, parts))
    yield Request(group, resource, verb, "" if verb == "create" else name), path
    # A patch or an update that creates the object needs the right to create it, too.
    if verb in ("patch", "update") and event.get("responseStatus", {}).get("code") == 201:
        yield Request(group, resource, "create"), path


def allows(rule: Rule, request: Request) -> bool:
    """Return whether a rule allows a request, as RBAC reads it."""
    group, resource, verb, name = request
    if not {"*", verb} & {*rule["verbs"]}:
        return False
    if resource.startswith("/"):
        urls = rule.get("nonResourceURLs", ())
        return any(
            resource == url or (url.endswith("*") and resource.startswith(url[:-1])) for url in urls
        )
    _, _, subresource = resource.partition("/")
    names = rule.get("resourceNames") or [name]
    return (
        bool({"*", group} & {*rule.get("apiGroups", ())})
        and bool({"*", resource, f"*/{subresource}"} & {*rule.get("resources", ())})
        and name in names
    )


def missing(used: Requests, rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
    """Yield each right that no rule gives, with the path of the first request that needs it."""
    sentences: dict[str, str] = {}
    for request, path in beyond(used, rules).items():
        sentences.setdefault(str(request), path)
    yield from sentences.items()


def beyond(used: Requests, rules: Iterable[Rule]) -> Requests:
    """Return the requests that no rule allows."""
    rules = [*rules]
    return {
        request: path
        for request, path in used.items()
        if not any(allows(rule, request) for rule in rules)
    }


def unused(rules: Iterable[Rule], used: Iterable[Request]) -> Iterator[str]:
    """Yield the parts of these rules that no request needs: verbs, with their resources."""
    used = [*used]
    for rule in rules:
        for request, part in _parts(rule):
            verbs = [
                verb
                for verb in rule["verbs"]
                if not any(allows({**part, "verbs": [verb]}, need) for need in used)
            ]
            if verbs:
                of_name = f" named {request.name}" if request.name else ""
                yield f"{request._replace(verb=', '.join(verbs))}{of_name}"


def _parts(rule: Rule) -> Iterator[tuple[Request, Rule]]:
    """Yield the parts of a rule about one resource, or one object: what it is, and the rule."""
    for url in rule.get("nonResourceURLs", ()):
        yield Request("", url, ""), {"nonResourceURLs": [url]}
    names = rule.get("resourceNames") or [""]
    for group, resource, name in itertools.product(
        rule.get("apiGroups", ()), rule.get("resources", ()), names
    ):
        part = {"apiGroups": [group], "resources": [resource]}
        yield Request(group, resource, "", name), part | ({"resourceNames": [name]} if name else {})


def rules(used: Requests) -> Iterator[tuple[list[str], Rule]]:
    """Yield the least rules that allow these requests, each with a request for each verb.

    They name no objects: a recorded name is one of the test's own.
    """
    reasons: dict[tuple[str, str], dict[str, str]] = {}
    for request, path in used.items():
        reasons.setdefault((request.group, request.resource), {}).setdefault(request.verb, path)
    for (group, resource), paths in sorted(reasons.items()):
        verbs = sorted(paths, key=lambda verb: (_VERBS.index(verb) if verb in _VERBS else 99, verb))
        rule: Rule = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        if resource.startswith("/"):
            rule = {"nonResourceURLs": [resource], "verbs": verbs}
        yield [f"{verb} {paths[verb]}" for verb in verbs], rule


def role(name: str, used: Requests) -> str:
    """Return a ClusterRole that allows these requests and no others, as YAML."""
    meta = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
    }
    text = "# What the operator asked for while `kopf-kit rights record` ran its tests.\n"
    text += f"{documents.text(meta)}rules:"
    for reasons, rule in rules(used):
        text += "".join(f"\n  # {reason}" for reason in reasons)
        text += "".join(f"\n  {line}" for line in documents.text([rule]).splitlines())
    return text + ("\n" if used else " []\n")
