"""`kopf-kit rights record -- pytest tests/faults`: records the rights that an operator uses.

The command runs with the fixtures of `kopf_kit.testing`, whose API servers then keep an audit log
and allow the operator everything.
"""

import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kopf_kit.project import documents
from kopf_kit.project.rbac import Rule
from kopf_kit.rig import control_plane, paths
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

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
            *("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
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


#: Each request once, with a path.
Requests = dict[Request, str]

_FILE = "rights.yaml"


class Rights(NamedTuple):
    """What an operator may do."""

    #: What says so, for people.
    where: str
    rules: Sequence[Rule]
    #: Those that kopf or the runtime needs, whatever the operator does.
    assumed: Sequence[Rule] = ()


@click.group()
def command() -> None:
    """Record the rights that an operator uses."""


@command.command()
@click.argument("test", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND…")
def record(test: tuple[str, ...]) -> None:
    """Run a test of the operator, and write rights.yaml with the least rules that it needs.

    Above each rule are requests that need it. `rights: rights.yaml` in PROJECT has the chart grant
    them. Differences from what PROJECT grants are printed.
    """
    ours, file = _rights(), paths.CHECKOUT / _FILE
    used = _requests(test)
    name = paths.prefix() if paths.has_project() else paths.CHECKOUT.name
    least = beyond(used, ours.assumed) if ours else used
    file.write_text(least_role(name, least))
    say(f"{file} written")
    for sentence in differences(used, ours) if ours else ():
        say(sentence)


def _rights() -> Rights | None:
    """Return what an operator may do by PROJECT; None outside of a project."""
    if not paths.has_project():
        return None
    from kopf_kit.crd import declared
    from kopf_kit.project import rbac
    from kopf_kit.project.definition import PROJECT

    adopted = PROJECT.adopted
    if adopted is None:
        rules = [rule for _, rule in declared.operator().rules]
        return Rights(f"the code of {PROJECT.manager}", rules, [rbac.LEASES])
    given = rbac.given(PROJECT).rules if adopted.rights else []
    kopfs = [rule for _, rule in rbac.kopfs(PROJECT)]
    return Rights(", ".join(adopted.roles) or "PROJECT", given, [*kopfs, rbac.SCANNING])


def _requests(test: Sequence[str]) -> Requests:
    """Run a test whose API servers keep an audit log; return what operators asked of them."""
    if not test:
        raise KitError(
            "there is nothing to run: use for example `kopf-kit rights record -- pytest tests`"
        )
    words = " ".join(test)
    with tempfile.TemporaryDirectory(prefix="kopf-kit-audit-") as folder:
        try:
            code = subprocess.call(test, env={**os.environ, control_plane.AUDITED: folder})
        except OSError as error:
            raise KitError(f"cannot run {test[0]}: {error.strerror}") from error
        if code:
            raise KitError(f"`{words}` failed ({code}), so requests may be missing: fix it first")
        used = of_logs(sorted(Path(folder).glob("*.log")))
    if not used:
        raise KitError(
            f"`{words}` started no operator with the fixtures of kopf_kit.testing, so its rights "
            "are unknown"
        )
    return used


def differences(used: Requests, ours: Rights) -> Iterator[str]:
    """Yield a sentence for each right that is missing, or that was never used."""
    for right, path in missing(used, [*ours.rules, *ours.assumed]):
        yield (
            f"missing: the right to {right}: {ours.where} does not give it, and the operator asked "
            f"for {path}"
        )
    for right in unused(ours.rules, used):
        yield f"unused: the right to {right}: {ours.where} gives it, and nothing asked for it"


def of_logs(files: Iterable[Path]) -> Requests:
    """Return what was asked for by audit logs, beyond what everybody may do."""
    used: Requests = {}
    for file in files:
        with file.open() as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may still be written
                    used |= dict(_asked(json.loads(line)))
    return beyond(used, _EVERYBODYS)


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


def least_rules(used: Requests) -> Iterator[tuple[list[str], Rule]]:
    """Yield the least rules that allow these requests, each with a request for each verb.

    They name no objects: a recorded name is one of the test's own.
    """
    reasons: dict[tuple[str, str], dict[str, str]] = {}
    for request, path in used.items():
        reasons.setdefault((request.group, request.resource), {}).setdefault(request.verb, path)
    for (group, resource), asked in sorted(reasons.items()):
        verbs = sorted(asked, key=lambda verb: (_VERBS.index(verb) if verb in _VERBS else 99, verb))
        rule: Rule = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        if resource.startswith("/"):
            rule = {"nonResourceURLs": [resource], "verbs": verbs}
        yield [f"{verb} {asked[verb]}" for verb in verbs], rule


def least_role(name: str, used: Requests) -> str:
    """Return a ClusterRole that allows these requests and no others, as YAML."""
    meta = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
    }
    text = "# What the operator asked for while `kopf-kit rights record` ran its tests.\n"
    text += f"{documents.text(meta)}rules:"
    for reasons, rule in least_rules(used):
        text += "".join(f"\n  # {reason}" for reason in reasons)
        text += "".join(f"\n  {line}" for line in documents.text([rule]).splitlines())
    return f"{text}\n"
