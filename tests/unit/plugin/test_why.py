"""`why` keeps what it knows of the Message if something is wrong with the operator, too."""

from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.findings import WAITS
from kubectl_message import why
from kubectl_message.messages import State
from tests.unit.plugin.clusters import healthy
from tests.unit.plugin.operators import Raw, account, by_helm, pod

STUCK = State(
    namespace="team",
    name="hello",
    phase="Failed",
    reason="PodStuckTerminating",
    message="its node n has not confirmed it",
    since="",
    pod="msg-hello",
    node="n",
    text="hello",
    interval=10,
    deleting=False,
    edited=False,
)


def test_the_messages_own_advice_stays_if_the_operator_does_not_run(
    cluster: dict[str, list[Raw]],
) -> None:
    lost = pod(ready=False, phase="Running") | {"spec": {"nodeName": "n"}}
    deployment = by_helm()
    cluster.update(
        deployments=[deployment],
        pods=[lost],
        nodes=[pod("n", ready=False)],
        serviceaccounts=[account(deployment)],
    )

    found = why.look(Kubectl(), STUCK)

    assert found.says.en == (
        "its former Pod does not end: the node does not confirm it. "
        "Besides, no replica of the operator is ready"
    )
    assert found.todo is not None
    assert "`kubectl -n team delete pod msg-hello --force`" in found.todo.en
    assert "kubectl delete node n" in found.todo.en
    assert found.detail == "its node n has not confirmed it; NodeNotReady: n"
    assert found.runbook == "MessageOperatorMessagesFailed"


def test_s5_a_message_that_prints_without_its_pod_is_to_be_asked_again(
    cluster: dict[str, list[Raw]],
) -> None:
    cluster.update(healthy())
    cluster["pods"] = [one for one in cluster["pods"] if one["metadata"]["name"] != STUCK.pod]

    found = why.look(Kubectl(), STUCK._replace(phase="Processed", reason="", message=""))

    assert found.level == WAITS
    assert found.says.en == "its Pod is gone or not ready"
    assert found.todo is not None
    assert found.todo.en == "The operator is about to notice; ask again in a moment."
