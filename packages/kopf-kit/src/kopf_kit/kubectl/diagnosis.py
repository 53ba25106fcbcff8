"""`kubectl NAME doctor`: checks that the operator is installed, ready, leading, and allowed.

Of replicas that do not run, it says why, and what to do about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from kopf_kit.kubectl import checks, client, subject, survey
from kopf_kit.kubectl.advice import (
    FAILS,
    NOTE,
    UNKNOWN,
    WAITS,
    WELL,
    Finding,
    is_called,
    lines,
    mark,
)
from kopf_kit.kubectl.client import ForbiddenError, Kubectl, KubectlError
from kopf_kit.kubectl.status import fare
from kopf_kit.kubectl.subject import Kind
from kopf_kit.kubectl.survey import RELEASE, Operator, Trouble, ended, is_ready, trouble
from kopf_kit.kubectl.text import Text, pad, some, width

#: For the reason of a Pod whose node the cluster has lost.
LOST = "NodeNotReady"

Object = dict[str, Any]

#: Number of a Pod's restarts from which they are reported.
MANY = 3

_UP = "kubectl -n {namespace} scale deployment/{name} --replicas=1"
_PREVIOUS_LOGS = "kubectl -n {namespace} logs deployment/{name} --previous"


def advice(reason: str) -> Text:
    """Return what to do about an operator's Pod that does not run for this reason."""
    return next(entry.do for entry in subject.current().advice.pods if is_called(entry, reason))


def runs(operator: Operator) -> Finding:
    """Check whether the operator's replicas are ready."""
    wanted = operator.deployment["spec"].get("replicas", 1)
    count = sum(is_ready(pod) for pod in operator.pods)
    if not wanted:
        return Finding(
            FAILS,
            Text("the operator is scaled to zero"),
            Text(f"Start it: {_UP}").format(**_words(operator)),
            runbook=subject.current().alert("Down"),
        )
    if not count:
        return _down(operator)
    changing = _rollout(operator)
    if changing is not None:
        return changing
    restarts = [
        status.get("restartCount", 0)
        for pod in operator.pods
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    if max(restarts, default=0) >= MANY:
        ends = [end for end in map(ended, operator.pods) if end is not None]
        todo = Text(f"See its last output: {_PREVIOUS_LOGS}")
        if any(end.reason == "OOMKilled" for end in ends):
            todo = advice("OOMKilled")
        return Finding(
            WAITS,
            Text("the operator was restarted {n} times").format(n=max(restarts)),
            todo.format(**_words(operator)),
            "; ".join(map(str, ends)),
            subject.current().alert("Restarting"),
        )
    numbers = {"count": count, "wanted": wanted}
    says = Text("{count} of {wanted} replicas are ready")
    if count >= wanted:
        return Finding(WELL, says.format(**numbers))
    return _not_ready(operator, Finding(WAITS, says.format(**numbers)))


def _down(operator: Operator) -> Finding:
    says = Text("no replica of the operator is ready")
    return _not_ready(operator, Finding(FAILS, says, runbook=subject.current().alert("Down")))


def _rollout(operator: Operator) -> Finding | None:
    """Return the finding about a rollout whose new Pod is not ready, or None."""
    running = {_template(pod) for pod in operator.pods if is_ready(pod)}
    new = [pod for pod in _waiting(operator) if _template(pod) not in running]
    if not new and not _refused(operator):
        return None
    says = Text("the Deployment's new Pod is not ready; the former one goes on working")
    finding = _not_ready(operator._replace(pods=new), Finding(WAITS, says))
    release = (operator.deployment["metadata"].get("annotations") or {}).get(RELEASE)
    if not client.is_name(release) or finding.todo is None:
        return finding
    back = f"`helm rollback {release} --namespace {operator.namespace}`."
    return finding._replace(todo=Text(f"{finding.todo} Or go back: {back}"))


def _not_ready(operator: Operator, finding: Finding) -> Finding:
    """Return a finding with why Pods are not ready, and what to do about the first of them."""
    pods = _waiting(operator) or [pod for pod in operator.pods if not is_ready(pod)]
    troubles = [_trouble(operator, pod) for pod in pods]
    if not troubles and _refused(operator):
        troubles = [Trouble("FailedCreate", _refused(operator))]
    reason = troubles[0].reason if troubles else ""
    todo = advice(reason).format(**_words(operator, pods[0] if pods else None))
    return finding._replace(todo=todo, detail="; ".join(map(str, troubles)))


def _waiting(operator: Operator) -> list[Object]:
    """Return the Pods that are to become ready."""
    return [
        pod
        for pod in operator.pods
        if not is_ready(pod)
        and "deletionTimestamp" not in pod["metadata"]
        and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
    ]


def _trouble(operator: Operator, pod: Object) -> Trouble:
    node = _node(pod)
    return Trouble(LOST, node) if node in operator.lost else trouble(pod)


def _refused(operator: Operator) -> str:
    """Return why the Deployment can create no Pod, or an empty text."""
    conditions = (operator.deployment.get("status") or {}).get("conditions") or ()
    refused = (c for c in conditions if (c["type"], c["status"]) == ("ReplicaFailure", "True"))
    return "; ".join(str(c.get("message", "")) for c in refused)


def _words(operator: Operator, pod: Object | None = None) -> dict[str, str]:
    """Return the words to fill into the sentences about an operator, and about a Pod of it."""
    words = {"namespace": operator.namespace, "name": operator.name, "pod": operator.name}
    if pod is None:
        return words
    name = pod["metadata"]["name"]  # advice has it in a command
    return words | {"node": _node(pod)} | ({"pod": name} if client.is_name(name) else {})


def _node(pod: Object) -> str:
    name = (pod.get("spec") or {}).get("nodeName")
    return str(name) if client.is_name(name) else ""  # advice has it in a command


def _template(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))


CLUSTER, CRD, OPERATOR = "Cluster", "Kind", "Operator"
READY, LEADER, RIGHTS, SERVED = "Ready", "Leader", "Rights", "Namespaces"
TITLES = (CLUSTER, CRD, OPERATOR, READY, LEADER, RIGHTS, SERVED)

ALL_WELL = Text("All is well.")
SOME_WRONG = Text("{n} of {all} checks found something wrong.")
OF_ONLY = Text("{it}, for {which} alone")
MAY_NOT = Text("you may not look")


class Check(NamedTuple):
    """A line of the report."""

    title: str
    finding: Finding


def report(kubectl: Kubectl) -> int:
    """Print the result of each check; return the exit code."""
    findings = []
    titles = (*TITLES, *(kind.many for kind in subject.current().kinds))
    room = max(width(title) for title in titles) + 3
    for title, finding in check(kubectl):
        print(f"{mark(finding.level)} {pad(title, room)}{finding.says}", flush=True)
        if finding.level != WELL:
            below = lines(finding)
            if below:
                print(*(f"  {line}" for line in below), sep="\n", flush=True)
        findings += [finding] * (finding.level != NOTE)
    wrong = sum(finding.level == FAILS for finding in findings)
    print()
    if wrong:
        print(SOME_WRONG.format(n=wrong, all=len(findings)))
    elif all(finding.level == WELL for finding in findings):
        print(ALL_WELL)
    return 1 if wrong else 0


def check(kubectl: Kubectl) -> Iterator[Check]:
    """Yield each check as soon as it is done; raise `KubectlError` if kubectl fails."""
    yield Check(CLUSTER, _cluster(kubectl))
    served, version = [], ""
    for kind in subject.current().kinds:
        finding, version = _kind(kubectl, kind)
        yield Check(CRD, finding)
        served += [kind] * (finding.level != FAILS)
    try:
        operators, alike = survey.look(kubectl)
    except ForbiddenError as error:
        operators, alike = [], []
        yield Check(OPERATOR, Finding(UNKNOWN, MAY_NOT, detail=error.said))
    else:
        if not operators:
            yield Check(OPERATOR, checks.not_installed())
    for operator in operators:
        about = partial(checks.about, operator)
        yield Check(OPERATOR, _installed(operator, version))
        yield Check(READY, about(runs(operator)))
        yield Check(LEADER, about(checks.leads(operator)))
        refused = checks.accepted(kubectl, operator)
        allowed = refused or checks.allowed(kubectl, operator, operator.namespaces)
        yield Check(RIGHTS, about(allowed))
    if alike:
        note = checks.ignored(alike)
        yield Check(OPERATOR, note._replace(todo=None) if operators else note)
    if served:
        yield from _served(kubectl, operators, served)


def _cluster(kubectl: Kubectl) -> Finding:
    """Ask for the versions; this is the first request, and it fails if there is no cluster."""
    versions = json.loads(kubectl.ask("version", "--output=json"))
    own, server = (versions[side]["gitVersion"] for side in ("clientVersion", "serverVersion"))
    says = Text("Kubernetes {server}, kubectl {own}")
    return Finding(WELL, says.format(server=server, own=own))


def _kind(kubectl: Kubectl, kind: Kind) -> tuple[Finding, str]:
    """Return whether the kind is served, and the version of the operator in its CRD."""
    lacking = client.refusal("no matches for kind")
    missing = Finding(
        FAILS,
        Text("the CRD {kind} is missing").format(kind=kind.resource),
        lacking.todo,
        runbook=subject.current().alert("Unserved"),
    )
    try:
        crd = kubectl.get("customresourcedefinitions.apiextensions.k8s.io", kind.resource)
    except ForbiddenError:
        return _discovered(kubectl, kind, missing), ""
    if crd is None:
        return missing, ""
    version = (crd["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
    conditions = (crd.get("status") or {}).get("conditions") or ()
    wrong = [
        str(c.get("message"))
        for c in conditions
        if (c["type"], c["status"]) in (("Established", "False"), ("NamesAccepted", "False"))
    ]
    served = [v["name"] for v in crd["spec"]["versions"] if v.get("served")]
    if wrong or kind.version not in served:
        says = Text("the CRD {kind} is not served")
        return missing._replace(
            says=says.format(kind=kind.resource), detail="; ".join(wrong)
        ), version
    installed = f"{kind.resource}/{kind.version} ({version or '?'})"
    return Finding(WELL, Text.of(installed)), version


def _discovered(kubectl: Kubectl, kind: Kind, missing: Finding) -> Finding:
    """Look for the kind by discovery, which every user may read."""
    group = kind.resource.partition(".")[2]
    try:
        kubectl.ask("get", "--raw", f"/apis/{group}/{kind.version}")
    except KubectlError as error:
        if error.key not in ("not-found", "no-kind"):
            raise
        return missing
    says = Text("{kind}/{v} is served")
    return Finding(WELL, says.format(kind=kind.resource, v=kind.version))


def _installed(operator: Operator, crd: str) -> Finding:
    says = Text.of(f"{operator.title} ({operator.version or '?'})")
    if operator.only is not None:
        return Finding(WELL, OF_ONLY.format(it=says, which=some(operator.only)))
    if not crd or not operator.version or crd == operator.version:
        return Finding(WELL, says)
    todo = Text(
        "The CRD is of version {crd}: `helm upgrade` with crds.install=true brings this one's."
    )
    return Finding(WAITS, says, todo.format(crd=crd))


def _served(kubectl: Kubectl, operators: list[Operator], kinds: list[Kind]) -> Iterator[Check]:
    """Check that all namespaces are served, and that the operator has looked at all objects."""
    try:
        objects = [(kind, kubectl.list(kind.resource, everywhere=True)) for kind in kinds]
        existing = {namespace["metadata"]["name"] for namespace in kubectl.list("namespaces")}
    except ForbiddenError as error:
        yield Check(SERVED, Finding(UNKNOWN, MAY_NOT, detail=error.said))
        return
    if operators:
        used = {
            str(manifest["metadata"].get("namespace") or "")
            for _, all_ in objects
            for manifest in all_
        }
        yield Check(SERVED, _namespaces(kubectl, operators, used - {""}, existing))
    for kind, of_kind in objects:
        yield Check(kind.many, fare(kind, of_kind))


def _namespaces(
    kubectl: Kubectl, operators: list[Operator], used: set[str], existing: set[str]
) -> Finding:
    for operator in operators:
        gone = sorted({*operator.namespaces} - existing)
        if not gone:
            continue
        says = Text("namespace {gone} is in watchNamespaces but does not exist")
        todo = Text("Create it, or take it out of the chart's value watchNamespaces.")
        says = says.format(gone=", ".join(gone))
        finding = Finding(FAILS, says, todo, runbook=subject.current().alert("Unserved"))
        return checks.about(operator, finding)
    both = checks.shared(kubectl, operators, existing)
    if both is not None:
        return both
    for namespace in sorted(used):
        if not any(checks.serves(kubectl, operator, namespace) for operator in operators):
            return checks.unserved(operators, namespace)
    says = Text("all that have {many} are served")
    return Finding(WELL, says.format(many=subject.current().many))
