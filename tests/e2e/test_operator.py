"""The operator itself may be restarted, stopped, doubled or killed: Messages get their due."""

from tests.e2e.kube import WAIT
from tests.e2e.messages import Namespace, ready, restarts, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until


def test_probes_and_metrics_answer(namespace: Namespace, operator: Operator) -> None:
    namespace.create("hello", "hello").wait_until_ready()

    alive = operator.get(8081, "healthz")
    able = operator.get(8081, "readyz")
    metrics = operator.get(8080, "metrics")

    assert (alive, able) == ("ok", "ok")
    assert "message_operator_leader 1.0" in metrics
    assert 'message_operator_reconciles_total{kind="messages",result="success"}' in metrics
    processed = next(
        line for line in metrics.splitlines() if line.startswith(
            'message_operator_messages{phase="Processed"}')
    )  # fmt: skip
    assert float(processed.split()[-1]) >= 1


def test_what_happened_while_the_operator_restarted_is_caught_up(
    namespace: Namespace, operator: Operator
) -> None:
    same, edited, gone, lost = messages = [
        namespace.create(name, "before") for name in ("same", "edited", "gone", "lost")
    ]
    pods = [message.wait_until_ready() for message in messages]
    (running,) = operator.pods()

    operator.delete_pod(running["metadata"]["name"])
    edited.edit(text="after")
    gone.delete()
    lost.delete_pod()
    new = namespace.create("new", "new")

    new.wait_until_ready()
    edited.wait_until_ready(instead_of=pods[1])
    edited.wait_for_log(b"after\n")
    gone.wait_until_gone()
    lost.wait_until_ready(instead_of=pods[3])
    operator.wait_until_ready()
    kept = same.wait_until_ready()
    assert (uid(kept), restarts(kept)) == (uid(pods[0]), 0)


def test_what_happened_while_there_was_no_operator_is_caught_up(
    namespace: Namespace, operator: Operator
) -> None:
    names = ("same", "edited", "gone", "lost", "ended", "altered", "bare", "reborn")
    messages = {name: namespace.create(name, "before") for name in names}
    pods = {name: message.wait_until_ready() for name, message in messages.items()}

    with operator.stopped():
        messages["edited"].edit(text="between")
        messages["edited"].edit(text="after")
        messages["gone"].delete()
        messages["lost"].delete_pod()
        messages["ended"].patch_pod({"spec": {"activeDeadlineSeconds": 1}})
        messages["altered"].patch_pod({"metadata": {"ownerReferences": None}})
        messages["bare"].patch_pod({"metadata": {"labels": None}})
        messages["reborn"].delete()
        messages["gone"].wait_until_gone()
        messages["reborn"].wait_until_gone()
        namespace.create("reborn", "after")
        namespace.create("new", "new")
        wait_until(
            "the Pod past its deadline to have ended",
            messages["ended"].pod,
            lambda pod: pod and pod["status"]["phase"] == "Failed",
        )
        assert namespace.message("new").status() == {}

    namespace.message("new").wait_until_ready()
    for name in ("edited", "lost", "ended", "altered", "bare", "reborn"):
        messages[name].wait_until_ready(instead_of=pods[name])
    messages["edited"].wait_for_log(b"after\n")
    messages["reborn"].wait_for_log(b"after\n")
    assert messages["ended"].wait_for_event("Healed")["message"] == (
        "Created Pod msg-ended again: its Pod had ended (DeadlineExceeded)."
    )
    kept = messages["same"].wait_until_ready()
    assert (uid(kept), restarts(kept)) == (uid(pods["same"]), 0)


def test_without_an_operator_a_message_is_deleted_at_once(
    namespace: Namespace, operator: Operator
) -> None:
    message = namespace.create("hello", "hello")
    message.wait_until_ready()

    with operator.stopped():
        namespace.kubectl("delete", "message", "hello", WAIT)

        message.wait_until_gone()


def test_without_an_operator_messages_go_on_printing(
    namespace: Namespace, operator: Operator
) -> None:
    message = namespace.create("tick", "Tick.", interval=1)
    message.wait_until_ready()

    with operator.stopped():
        so_far = message.log()

        message.wait_for_log(so_far + b"Tick.\n")
        assert ready(message.status())["status"] == "True"


def test_when_the_leader_is_killed_another_takes_over(
    namespace: Namespace, operator: Operator
) -> None:
    same, edited = (namespace.create(name, "before") for name in ("same", "edited"))
    pods = [message.wait_until_ready() for message in (same, edited)]

    with operator.replicas(2):
        names = [pod["metadata"]["name"] for pod in operator.pods()]
        leader = wait_until("one of them to lead", operator.leader, lambda name: name in names)

        operator.delete_pod(leader, gracePeriodSeconds=0)
        edited.edit(text="after")
        new = namespace.create("new", "new")

        wait_until("another to lead", operator.leader, lambda name: name not in ("", leader))
        new.wait_until_ready()
        edited.wait_until_ready(instead_of=pods[1])
        edited.wait_for_log(b"after\n")

    kept = same.wait_until_ready()
    assert (uid(kept), restarts(kept)) == (uid(pods[0]), 0)


def test_of_two_operators_one_works(namespace: Namespace, operator: Operator) -> None:
    with operator.replicas(2):
        messages = [namespace.create(f"hello-{number}", "hello") for number in range(5)]
        for message in messages:
            message.wait_until_ready()

            message.wait_for_event("Created")

        events = [(event["reason"], event.get("count")) for m in messages for event in m.events()]
        assert events == [("Created", 1)] * 5


def test_the_text_of_a_message_is_not_in_the_operators_log(
    namespace: Namespace, operator: Operator
) -> None:
    message = namespace.create("discreet", "my-secret-words")

    message.wait_until_ready()

    log = operator.log()
    about = f'"namespace": "{namespace.name}", "name": "discreet"'
    assert f'{about}, "message": "created Pod msg-discreet"' in log
    assert "my-secret-words" not in log


def test_the_operators_own_pod_is_restricted_too(namespace: Namespace, operator: Operator) -> None:
    (pod,) = operator.pods()

    (container,) = pod["spec"]["containers"]
    where = namespace.kube.get("Namespace", pod["metadata"]["namespace"]) or {}
    assert where["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert restarts(pod) == 0
