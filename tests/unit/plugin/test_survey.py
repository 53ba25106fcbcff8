"""The operator is found and understood, whether Helm or OLM installed it."""

import pytest

from kopf_kit.kubectl import checks, installation, survey
from kopf_kit.kubectl import pods as running
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.findings import FAILS, WAITS, WELL, Finding
from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.survey import RELEASE
from tests.unit.plugin.operators import Raw, account, ago, by_helm, by_olm, lease, pod


def test_a_deployment_of_the_chart_is_understood() -> None:
    one = Operator(by_helm(watchNamespaces=["a", "b"]), [], None)

    assert one.namespaces == ["a", "b"]
    assert one.elects
    assert one.lease_name == one.name
    assert one.account == f"system:serviceaccount:{one.namespace}:{one.name}"
    assert one.version
    assert Operator(by_helm(), [], None).namespaces == []
    selecting = Operator(by_helm(watchNamespaceSelector="team in (a,b)"), [], None)
    assert selecting.selector == "team in (a,b)"
    assert not Operator(by_helm(leaderElection={"enabled": False}), [], None).elects


def test_a_deployment_of_olm_is_understood() -> None:
    one = Operator(by_olm("a,b"), [], None)

    assert one.namespaces == ["a", "b"]
    assert one.elects
    assert one.lease_name == "message-operator"
    assert Operator(by_olm(), [], None).namespaces == []


def test_by_its_settings_an_operator_is_told_from_other_deployments() -> None:
    other = by_helm()
    other["spec"]["template"]["spec"]["containers"][0].update(
        args=["--namespace=a"], env=[], image="registry.example/other:1"
    )

    assert installation.is_operator(by_helm(nameOverride="other"))
    assert installation.is_operator(by_olm())
    assert not installation.is_operator(other)


@pytest.mark.parametrize(
    ("pods", "level", "says"),
    [
        ([pod()], WELL, "1 of 1 replicas are ready"),
        ([], FAILS, "no replica of the operator is ready"),
        ([pod(ready=False)], FAILS, "no replica of the operator is ready"),
        ([pod(containerStatuses=[{"name": "operator", "restartCount": 7}])], WAITS, "7 times"),
    ],
)
def test_replicas_that_are_not_ready_are_told(pods: list[Raw], level: str, says: str) -> None:
    found = running.runs(Operator(by_helm(), pods, None))

    assert found.level == level
    assert says in found.says.en


def test_why_a_replica_does_not_run_is_quoted() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    stuck = pod(ready=False, containerStatuses=[{"name": "operator", "state": state}])
    refused = by_helm()
    message = 'pods "x" is forbidden: exceeded quota'
    refused["status"] = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]
    }

    assert "ImagePullBackOff: Back-off" in running.runs(Operator(by_helm(), [stuck], None)).detail
    assert running.runs(Operator(refused, [], None)).detail == f"FailedCreate: {message}"


def waits(reason: str, message: str = "", *, end: str = "") -> Raw:
    """Return the status of a container that waits, and how it ended before."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": "operator", "state": state, "lastState": {"terminated": {"reason": end}}}


def runs_again(seconds: float) -> Raw:
    """Return the status of a container that runs, and that ended before."""
    last = {"terminated": {"reason": "Error", "finishedAt": ago(seconds)}}
    return {"name": "operator", "state": {"running": {}}, "lastState": last}


NO_NODE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 node(s) were unschedulable.",
}
UNREADY = {"type": "Ready", "status": "False", "message": "containers with unready status"}


@pytest.mark.parametrize(
    ("status", "detail", "todo"),
    [
        (
            {"containerStatuses": [waits("ImagePullBackOff", "Back-off")]},
            "ImagePullBackOff: Back-off",
            "image.*",
        ),
        (
            {"containerStatuses": [waits("CrashLoopBackOff", "back-off 5m0s")]},
            "CrashLoopBackOff: back-off 5m0s",
            "logs operator-0 --previous",
        ),
        (
            {"containerStatuses": [waits("CrashLoopBackOff", "back-off 5m0s", end="OOMKilled")]},
            "OOMKilled: operator",
            "resources.limits.memory",
        ),
        (
            {"phase": "Pending", "conditions": [NO_NODE]},
            f"Unschedulable: {NO_NODE['message']}",
            "kubectl uncordon NODE",
        ),
        (
            {"phase": "Running", "conditions": [UNREADY]},
            "ContainersNotReady: containers with unready status",
            "logs operator-0",
        ),
        (
            {"phase": "Pending", "containerStatuses": [waits("ContainerCreating")]},
            "Pending",
            "describe pod operator-0",
        ),
    ],
    ids=["image", "crash", "memory", "no node", "not ready", "starting"],
)
def test_the_advice_fits_the_reason(status: Raw, detail: str, todo: str) -> None:
    found = running.runs(Operator(by_helm(), [pod(ready=False) | {"status": status}], None))

    assert found.detail == detail
    assert todo in advised(found)
    assert ("image.*" in advised(found)) == (todo == "image.*")


@pytest.mark.parametrize(
    ("seconds", "detail", "todo"),
    [
        (9, "Error: operator", "--previous"),
        (9999, "ContainersNotReady: containers with unready status", "logs operator-0"),
    ],
)
def test_an_end_is_the_reason_for_a_while(seconds: float, detail: str, todo: str) -> None:
    status = {
        "phase": "Running",
        "conditions": [UNREADY],
        "containerStatuses": [runs_again(seconds)],
    }

    found = running.runs(Operator(by_helm(), [pod(ready=False) | {"status": status}], None))

    assert found.detail == detail
    assert todo in advised(found)


def advised(found: Finding) -> str:
    assert found.todo is not None
    return found.todo.en


def test_a_node_that_is_lost_is_why_its_pod_is_not_ready(cluster: dict[str, list[Raw]]) -> None:
    on_it = pod(ready=False, phase="Running") | {"spec": {"nodeName": "worker-1"}}
    node = pod("worker-1", ready=False)

    cluster.update(deployments=[by_helm()], pods=[on_it], nodes=[node])

    (one,), _ = survey.look(Kubectl())
    found = running.runs(one)

    assert found.detail == "NodeNotReady: worker-1"
    assert "kubectl delete node worker-1" in advised(found)


def test_a_pod_that_is_being_deleted_does_not_choose_the_advice() -> None:
    old = pod(ready=False, phase="Running")
    old["metadata"]["deletionTimestamp"] = "2026-11-21T02:10:20Z"
    new = pod("operator-1", ready=False, phase="Pending", conditions=[NO_NODE])

    found = running.runs(Operator(by_helm(), [old, new], None))

    assert "kubectl uncordon NODE" in advised(found)


def of_rollout(template: str, one: Raw) -> Raw:
    one["metadata"]["labels"] = {"pod-template-hash": template}
    return one


@pytest.mark.parametrize(
    ("status", "todo"),
    [
        (waits("ImagePullBackOff", "Back-off"), "image.*"),
        (waits("CrashLoopBackOff", "back-off") | {"restartCount": 9}, "logs operator-1 --previous"),
    ],
)
def test_a_rollout_that_is_stuck_is_told_though_the_former_pod_serves(
    status: Raw, todo: str
) -> None:
    former = of_rollout("a", pod())
    new = of_rollout("b", pod("operator-1", ready=False, containerStatuses=[status]))
    deployment = by_helm()
    deployment["metadata"]["annotations"] = {RELEASE: "prod"}

    found = running.runs(Operator(deployment, [former, new], None))

    assert found.level == WAITS
    assert found.says.en == "the Deployment's new Pod is not ready; the former one goes on working"
    assert found.detail.startswith(status["state"]["waiting"]["reason"])
    assert todo in advised(found)
    assert f"helm rollback prod --namespace {deployment['metadata']['namespace']}" in advised(found)


def test_a_rollout_whose_pod_is_refused_is_told() -> None:
    deployment = by_helm()
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    deployment["status"] = {"conditions": [failure]}

    found = running.runs(Operator(deployment, [of_rollout("a", pod())], None))

    assert (found.level, found.detail) == (WAITS, "FailedCreate: exceeded quota")


@pytest.mark.parametrize("gone", [{"phase": "Failed", "reason": "Evicted"}, {"phase": "Succeeded"}])
def test_a_pod_that_has_ended_is_no_stuck_rollout(gone: Raw) -> None:
    left = of_rollout("b", pod("operator-1", ready=False, **gone))

    assert running.runs(Operator(by_helm(), [of_rollout("a", pod()), left], None)).level == WELL


def test_an_operator_that_is_scaled_to_zero_is_told() -> None:
    found = running.runs(Operator(by_helm(replicaCount=0), [], None))

    assert found.says.en == "the operator is scaled to zero"
    assert found.todo is not None
    assert "scale deployment/" in found.todo.en


@pytest.mark.parametrize(
    ("holder", "seconds", "level"),
    [
        ("operator-0", 0, WELL),
        ("operator-0", 3600, FAILS),
        ("gone", 0, FAILS),
        ("", 0, FAILS),
        (None, 0, FAILS),
    ],
    ids=["leads", "silent", "another", "released", "no lease"],
)
def test_a_lease_that_nobody_holds_is_told(holder: str | None, seconds: float, level: str) -> None:
    found = None if holder is None else lease(holder, seconds)  # renewed now, not when collected

    assert checks.leads(Operator(by_helm(), [pod()], found)).level == level


@pytest.mark.parametrize(("seconds", "is_abandoned"), [(3600, True), (0, False)])
def test_the_lease_of_a_silent_holder_that_is_not_a_pod_can_be_deleted(
    seconds: float, is_abandoned: bool
) -> None:
    operator = Operator(by_helm(), [pod()], lease("gone", seconds))
    todo = checks.leads(operator).todo

    assert todo is not None
    deleted = f"kubectl -n {operator.lease_namespace} delete lease {operator.lease_name}"
    assert todo.en.endswith(deleted) == is_abandoned


def test_the_rights_that_the_operator_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_: Kubectl, questions: list[checks.Question]) -> list[bool]:
        return [asked.right not in checks.LEASE for asked in questions]

    monkeypatch.setattr(checks, "answers", answers)
    found = checks.allowed(Kubectl(), one := Operator(by_helm(), [pod()], None), [])

    assert (found.level, found.says.en) == (FAILS, "the operator lacks rights")
    assert found.detail == ", ".join(f"{right} ({one.namespace})" for right in checks.LEASE)


def test_without_an_election_nobody_has_to_lead() -> None:
    alone = by_helm(leaderElection={"enabled": False})

    assert checks.leads(Operator(alone, [pod()], None)).level == WELL


@pytest.mark.parametrize(
    ("created", "started", "renewed", "told"),
    [
        (60, 120, 70, True),
        (60, 120, 55, True),  # the API server had still cached that the token was valid
        (60, 120, None, True),
        (60, 30, 70, False),
        (60, 120, 2, False),  # the kubelet has fetched a new token
        (7200, 9000, None, False),
    ],
)
def test_a_service_account_that_is_newer_than_its_pod_is_told(
    created: float,
    started: float,
    renewed: float | None,
    told: bool,
    cluster: dict[str, list[Raw]],
) -> None:
    deployment = by_helm()
    cluster.update(serviceaccounts=[account(deployment, created)])
    held = None if renewed is None else lease("operator-0", renewed)
    one = Operator(deployment, [pod(startTime=ago(started))], held)

    found = checks.accepted(Kubectl(), one)

    assert (found is not None) == told
    if found is not None:
        assert "was created after the operator's Pod started" in found.says.en
        assert f"rollout restart deployment/{one.name}" in advised(found)


def test_a_service_account_that_is_missing_is_told(cluster: dict[str, list[Raw]]) -> None:
    found = checks.accepted(Kubectl(), Operator(by_helm(), [pod()], None))

    assert found is not None
    assert "is missing" in found.says.en


def test_a_namespace_that_is_not_served_gets_the_labels_or_a_place_in_the_list() -> None:
    by_list = checks.unserved([Operator(by_helm(watchNamespaces=["a"]), [], None)], "team")
    chosen = Operator(by_helm(watchNamespaceSelector="team=a"), [], None)
    by_label = checks.unserved([chosen], "team")

    assert by_list.todo is not None
    assert by_label.todo is not None
    assert "watchNamespaces" in by_list.todo.en
    assert "(team=a)" in by_label.todo.en
