"""The operator is found and understood, whether Helm or OLM installed it."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from hack.pack import bundle
from kubectl_message import checks, survey
from kubectl_message.findings import FAILS, WAITS, WELL
from kubectl_message.survey import Operator
from tests.chart import helm

Raw = dict[str, Any]


def by_helm(**values: object) -> Raw:
    """Return the Deployment that the chart makes."""
    found = next(m for m in helm.render(values) if m["kind"] == "Deployment")
    return copy.deepcopy(found)


def by_olm(namespaces: str = "") -> Raw:
    """Return the Deployment that OLM makes of the bundle."""
    file = bundle.BUNDLE / "manifests" / f"{bundle.NAME}.clusterserviceversion.yaml"
    (deployment,) = yaml.safe_load(file.read_text())["spec"]["install"]["spec"]["deployments"]
    template = deployment["spec"]["template"]["metadata"]
    template["annotations"] = {**template["annotations"], survey.OLM: namespaces}
    metadata = {"name": deployment["name"], "namespace": "operators", "labels": deployment["label"]}
    return {"metadata": metadata, "spec": deployment["spec"]}


def pod(name: str = "operator-0", *, ready: bool = True, **status: object) -> Raw:
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": {"name": name}, "status": {"conditions": [condition], **status}}


def lease(holder: str, seconds: float = 0) -> Raw:
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    renewed = then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"spec": {"holderIdentity": holder, "renewTime": renewed}}


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
    other["spec"]["template"]["spec"]["containers"][0].update(args=["--namespace=a"], env=[])

    assert survey._is_operator(by_helm(nameOverride="other"))
    assert survey._is_operator(by_olm())
    assert not survey._is_operator(other)


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
    found = checks.runs(Operator(by_helm(), pods, None))

    assert found.level == level
    assert says in found.says.en


def test_why_a_replica_does_not_run_is_quoted() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    stuck = pod(ready=False, containerStatuses=[{"name": "operator", "state": state}])
    refused = by_helm()
    message = 'pods "x" is forbidden: exceeded quota'
    refused["status"] = {"conditions": [{"type": "ReplicaFailure", "message": message}]}

    assert "ImagePullBackOff: Back-off" in checks.runs(Operator(by_helm(), [stuck], None)).detail
    assert checks.runs(Operator(refused, [], None)).detail == message


def test_an_operator_that_is_scaled_to_zero_is_told() -> None:
    found = checks.runs(Operator(by_helm(replicaCount=0), [], None))

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


def test_without_an_election_nobody_has_to_lead() -> None:
    alone = by_helm(leaderElection={"enabled": False})

    assert checks.leads(Operator(alone, [pod()], None)).level == WELL


def test_a_namespace_that_is_not_served_gets_the_labels_or_a_place_in_the_list() -> None:
    by_list = checks.unserved([Operator(by_helm(watchNamespaces=["a"]), [], None)], "team")
    chosen = Operator(by_helm(watchNamespaceSelector="team=a"), [], None)
    by_label = checks.unserved([chosen], "team")

    assert by_list.todo is not None
    assert by_label.todo is not None
    assert "watchNamespaces" in by_list.todo.en
    assert "(team=a)" in by_label.todo.en
