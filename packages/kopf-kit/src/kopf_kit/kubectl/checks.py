"""Checks of an operator: `doctor` prints all, `why` those that explain why an object waits."""

from __future__ import annotations

import itertools
from typing import Any

from kopf_kit.kubectl import client, subject, survey
from kopf_kit.kubectl.advice import FAILS, NOTE, UNKNOWN, WELL, Finding
from kopf_kit.kubectl.client import ForbiddenError, Kubectl, Question
from kopf_kit.kubectl.status import age
from kopf_kit.kubectl.subject import Right
from kopf_kit.kubectl.survey import Operator
from kopf_kit.kubectl.text import Text, ago, some

Object = dict[str, Any]


#: A test compares them with the chart's roles.
LEASE = tuple(Right("coordination.k8s.io", "leases", verb) for verb in ("get", "update", "create"))
SELECTING = tuple(Right("", "namespaces", verb) for verb in ("list", "watch"))


def missing(kubectl: Kubectl, operator: Operator, namespaces: list[str]) -> list[str]:
    """Return the rights that an operator lacks, with the namespace; raise `KubectlError`.

    Without namespaces, it checks the cluster-wide rights.
    """
    account = operator.account
    questions = [
        Question(account, right, namespace, right.name)
        for namespace in (namespaces or [""])[: survey.MAX_NAMESPACES]
        for right in subject.current().rights
    ]
    if operator.selector:
        questions += [Question(account, right) for right in SELECTING]
    if operator.elects:
        where, name = operator.lease_namespace, operator.lease_name
        questions += [
            Question(account, right, where, "" if right.verb == "create" else name)
            for right in LEASE
        ]
    return [
        f"{question.right} ({question.namespace or '*'})"
        for question, allowed in zip(questions, client.answers(kubectl, questions))
        if not allowed
    ]


#: What the administrators of a namespace installed, they could have made to be misunderstood: a
#: `helm upgrade` or `helm rollback` by somebody else would give it what they ask for.
THEIRS = Text(
    "Leave it to the administrators of {which}: they alone vouch for this operator. Unless you "
    "installed it yourself, grant it nothing, and run no helm command for it."
)
IGNORED = Text(
    "ignored: {which}. Whoever may edit a namespace can make what looks like an operator there"
)
YOURS = Text(
    "If you installed one of them yourself, install it again from your own chart or manifests: no "
    "role or binding of the cluster names it."
)


def about(operator: Operator, finding: Finding) -> Finding:
    """Return a finding that names its operator, with advice that is safe to follow."""
    if operator.only is not None and finding.todo is not None:
        finding = finding._replace(todo=THEIRS.format(which=some(operator.only)))
    return finding._replace(about=operator.title)


def ignored(alike: list[str]) -> Finding:
    """Return what is said of Deployments that only look like an operator."""
    return Finding(NOTE, IGNORED.format(which=some(alike)), YOURS)


#: Seconds without a renewal after which a Lease counts as abandoned; clocks may differ.
SILENT = 90.0
#: Seconds for which a Pod's token may be valid: by then the kubelet has fetched a new one.
TOKEN = 3600.0
#: Seconds for which an API server may accept a token that is not valid any more.
CACHED = 15.0

NOT_INSTALLED = Text("no operator is installed")
_INSTALL = "helm install {name} charts/{name} --namespace {name} --create-namespace"
INSTALL = Text(f"Install it: {_INSTALL}")
ALL = Text("all namespaces")
SHARED = Text("{one} and {other} both act on the {many} of {which}")
SEPARATE = Text(
    "Give each its own namespaces by the chart's value watchNamespaces or watchNamespaceSelector, "
    "or uninstall one of them."
)
NO_NAME = Text("the operator cannot elect a leader: its Lease has no valid name")
CORRECT = Text("Correct the arguments --lease-name and --lease-namespace of its Deployment.")
#: How much is quoted of a name that is none.
QUOTED = 200
_DELETE = "kubectl -n {namespace} delete lease {name}"
ABANDONED = Text(
    "The Lease's holder is not a Pod of the operator. If it is gone, delete the Lease: " + _DELETE
)
_RESTART = "kubectl -n {namespace} rollout restart deployment/{name}"
GONE = Text("the ServiceAccount {account} is missing, so the API server refuses the operator (401)")
RESTORE = Text(f"`helm upgrade` brings it back; then restart the operator: {_RESTART}")
NEWER = Text(
    "the ServiceAccount {account} was created after the operator's Pod started, so the Pod's "
    "token is not valid (401)"
)
RESTART = Text(f"Restart the operator: {_RESTART}")
_LOGS = "kubectl -n {namespace} logs deployment/{name}"


def _alert(name: str) -> str:
    return subject.current().alert(name)


def not_installed() -> Finding:
    """Return the finding that no operator is installed."""
    todo = INSTALL.format(name=subject.current().name)
    return Finding(FAILS, NOT_INSTALLED, todo, runbook=_alert("Down"))


def leads(operator: Operator) -> Finding:
    """Check whether one of the replicas leads."""
    if not operator.elects:
        return Finding(WELL, Text("no election: its one replica works"))
    lease = f"{operator.lease_namespace}/{operator.lease_name}"
    if not client.is_name(operator.lease_name) or not client.is_namespace(operator.lease_namespace):
        return Finding(FAILS, NO_NAME, CORRECT, lease[:QUOTED], _alert("NoLeader"))
    spec = (operator.lease or {}).get("spec") or {}
    holder, since = spec.get("holderIdentity") or "", age(spec.get("renewTime") or "")
    # The holder is a process of a Pod: its name, and a suffix.
    holder = holder.partition("_")[0]
    ours = holder in [pod["metadata"]["name"] for pod in operator.pods]
    if ours and (since or 0) < SILENT:
        return Finding(WELL, Text("{holder} leads").format(holder=holder))
    detail = f"Lease {lease}: "
    if operator.lease is None:
        detail += "-"
    else:
        detail += f"holderIdentity={holder or '-'}, renewTime={ago(since or 0)} ago"
    todo = Text(
        "A new leader takes half a minute. If it stays, the log says whether the Lease could be "
        f"written: {_LOGS} --all-pods | grep -i lease"
    ).format(namespace=operator.namespace, name=operator.name)
    if holder and not ours and (since or 0) >= SILENT:
        todo = ABANDONED.format(namespace=operator.lease_namespace, name=operator.lease_name)
    says = Text("no replica of the operator leads")
    return Finding(FAILS, says, todo, detail, _alert("NoLeader"))


def accepted(kubectl: Kubectl, operator: Operator) -> Finding | None:
    """Return the finding about a token that the API server does not accept, or None.

    A Pod's token belongs to the ServiceAccount that there was when the kubelet fetched it, even if
    another one has the same name now.
    """
    name = operator.account.rpartition(":")[2]
    try:
        account = kubectl.get("serviceaccounts", name, operator.namespace)
    except ForbiddenError:
        return None
    words = {"namespace": operator.namespace, "name": operator.name, "account": name}
    if account is None:
        return Finding(
            FAILS, GONE.format(**words), RESTORE.format(**words), runbook=_alert("Forbidden")
        )
    created = str(account["metadata"]["creationTimestamp"])
    former = [
        pod
        for pod in operator.pods
        if "deletionTimestamp" not in pod["metadata"]
        and str((pod.get("status") or {}).get("startTime") or created) < created
    ]
    since = age(created) or 0
    renewed = age(((operator.lease or {}).get("spec") or {}).get("renewTime") or "")
    works = renewed is not None and renewed < since - CACHED
    if not former or works or since > TOKEN:
        return None
    return Finding(
        FAILS, NEWER.format(**words), RESTART.format(**words), runbook=_alert("Forbidden")
    )


def allowed(kubectl: Kubectl, operator: Operator, namespaces: list[str]) -> Finding:
    """Check whether the operator has its rights, in these namespaces or in all."""
    try:
        lacks = missing(kubectl, operator, namespaces)
    except ForbiddenError:
        return Finding(UNKNOWN, Text("you may not ask what the operator may do"))
    if not lacks:
        return Finding(WELL, Text("the operator has all its rights"))
    return Finding(
        FAILS,
        Text("the operator lacks rights"),
        Text(
            "`helm upgrade` brings the roles and bindings back; with rbac.create=false an "
            "administrator has to grant them."
        ),
        ", ".join(lacks),
        _alert("Forbidden"),
    )


def serves(kubectl: Kubectl, operator: Operator, namespace: str) -> bool:
    """Return whether the operator is configured to serve a namespace; raise `KubectlError`."""
    return namespace in served(kubectl, operator, {namespace})


def served(kubectl: Kubectl, operator: Operator, existing: set[str]) -> set[str]:
    """Return which of these namespaces the operator is to serve; raise `KubectlError`."""
    if operator.selector:
        if not client.is_selector(operator.selector):
            return set()
        chosen = kubectl.list("namespaces", f"--selector={operator.selector}")
        return existing & {namespace["metadata"]["name"] for namespace in chosen}
    return existing & {*operator.namespaces} if operator.namespaces else existing


def shared(kubectl: Kubectl, operators: list[Operator], existing: set[str]) -> Finding | None:
    """Return the finding about two operators that serve the same namespaces, or None."""
    acting = [operator for operator in operators if operator.deployment["spec"].get("replicas", 1)]
    all_served = [(operator, served(kubectl, operator, existing)) for operator in acting]
    for (first, of_first), (second, of_second) in itertools.combinations(all_served, 2):
        both = sorted(of_first & of_second)
        if not both:
            continue
        which = ALL if of_first == of_second == existing else Text.of(some(both))
        many = subject.current().many
        says = SHARED.format(which=which, many=many, one=first.title, other=second.title)
        return Finding(FAILS, says, SEPARATE)
    return None


def unserved(operators: list[Operator], namespace: str) -> Finding:
    """Return the finding about a namespace that no operator serves."""
    chosen = (operator.selector for operator in operators)
    selectors = ", ".join(selector for selector in chosen if client.is_selector(selector))
    todo = Text("Add it to the chart's value watchNamespaces, and keep the others there.")
    if selectors:
        todo = Text(
            "Give it the labels that the operator selects: kubectl label namespace {it} … ({of})"
        ).format(it=namespace, of=selectors)
    return Finding(
        FAILS,
        Text("no operator serves the namespace {it}").format(it=namespace),
        todo,
        runbook=_alert("Unserved"),
        about=some([operator.title for operator in operators]),
    )
