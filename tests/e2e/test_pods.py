"""What the Pod of a Message, and that of the operator, may and may not do."""

from tests.e2e.messages import Namespace, restarts, uid
from tests.e2e.release import Operator


def test_the_pod_has_no_more_than_it_needs(namespace: Namespace) -> None:
    namespace.kubectl("create", "service", "clusterip", "neighbour", "--tcp=80")
    message = namespace.create("hello", "hello")

    pod = message.wait_until_ready()

    said = namespace.kubectl.refusal("run", "lesser", "--image=localhost:5001/busybox")
    assert 'violates PodSecurity "restricted' in said
    shell = ("exec", "msg-hello", "--", "/bin/sh", "-c")
    assert "NEIGHBOUR" not in namespace.kubectl(*shell, "env")
    assert namespace.kubectl(*shell, "ls -d /var/run/secrets/kubernetes.io || echo none") == (
        "none\n"
    )
    assert pod["spec"].get("volumes", []) == []
    assert namespace.kubectl(*shell, "id -u").strip() != "0"
    assert namespace.kubectl(*shell, "touch /tmp/new 2>/dev/null || echo read-only") == (
        "read-only\n"
    )
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1m", "memory": "4Mi"},
        "limits": {"cpu": "100m", "memory": "16Mi"},
    }


def test_the_pod_ends_at_once_when_it_is_told_to(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello", interval=86400)
    former = message.wait_until_ready()
    since = namespace.now()

    # With ten minutes of grace, only a Pod that heeds SIGTERM is gone within the test.
    message.delete_pod("--grace-period=600")

    message.wait_until_ready(instead_of=former)
    last = [
        pod
        for what, pod in namespace.history(since)
        if what == "DELETED" and uid(pod) == uid(former)
    ][-1]
    (container,) = last["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 0


def test_the_operator_s_own_pod_is_restricted_and_answers_and_its_log_is_discreet(
    namespace: Namespace, operator: Operator
) -> None:
    namespace.create("discreet", "my-secret-words").wait_until_ready()
    (pod,) = operator.pods()

    (container,) = pod["spec"]["containers"]
    where = operator.kubectl.get("namespace", operator.namespace)
    assert where["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert restarts(pod) == 0

    assert (operator.get(8081, "healthz"), operator.get(8081, "readyz")) == ("ok", "ok")
    metrics = operator.get(8080, "metrics")
    assert "message_operator_leader 1.0" in metrics
    assert 'controller_runtime_reconcile_total{controller="messages",result="success"}' in metrics
    processed = 'message_operator_messages{phase="Processed"}'
    (line,) = (line for line in metrics.splitlines() if line.startswith(processed))
    assert float(line.split()[-1]) >= 1

    log = operator.log()
    about = f'"namespace": "{namespace.name}", "name": "discreet"'
    assert f'{about}, "message": "created Pod msg-discreet"' in log
    assert "my-secret-words" not in log
