"""What the Pod of a Message may and may not do."""

from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace, uid
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until


def test_pod_security_restricted_admits_the_pod_and_would_refuse_a_lesser_one(
    namespace: Namespace,
) -> None:
    message = namespace.create("hello", "hello")

    message.wait_until_ready()
    said = namespace.kube.refusal(
        *("-n", namespace.name, "run", "lesser", "--image=localhost:5001/busybox")
    )

    assert 'violates PodSecurity "restricted' in said


def test_the_pod_has_no_token_and_no_variables_of_services(namespace: Namespace) -> None:
    namespace.kubectl("create", "service", "clusterip", "neighbour", "--tcp=80")
    message = namespace.create("hello", "hello")

    pod = message.wait_until_ready()

    shell = ("exec", "msg-hello", "--", "/bin/sh", "-c")
    assert "NEIGHBOUR" not in namespace.kubectl(*shell, "env")
    assert namespace.kubectl(*shell, "ls -d /var/run/secrets/kubernetes.io || echo none") == (
        "none\n"
    )
    assert pod["spec"].get("volumes", []) == []


def test_the_pod_runs_as_nobody_in_particular_on_a_read_only_root(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")

    message.wait_until_ready()

    shell = ("exec", "msg-hello", "--", "/bin/sh", "-c")
    assert namespace.kubectl(*shell, "id -u").strip() != "0"
    assert namespace.kubectl(*shell, "touch /tmp/new 2>/dev/null || echo read-only") == (
        "read-only\n"
    )


def test_the_pod_ends_at_once_when_it_is_told_to(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello", interval=86400)
    former = message.wait_until_ready()
    since = namespace.now()

    # With ten minutes of grace, only a Pod that heeds SIGTERM is gone within the test.
    message.delete_pod(gracePeriodSeconds=600)

    message.wait_until_ready(instead_of=former)
    last = [
        pod
        for what, pod in namespace.kube.history("Pod", namespace.name, since)
        if what == "DELETED" and uid(pod) == uid(former)
    ][-1]
    (container,) = last["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 0


def test_a_message_asks_for_next_to_nothing(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")

    pod = message.wait_until_ready()

    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1m", "memory": "4Mi"},
        "limits": {"cpu": "100m", "memory": "16Mi"},
    }


def test_a_namespace_with_messages_can_be_deleted(kube: Kube, operator: Operator) -> None:
    namespace = Namespace(kube, "deleted-with-messages")
    namespace.make()
    for number in range(3):
        namespace.create(f"hello-{number}", "hello").wait_until_ready()

    namespace.remove()

    wait_until(
        "the namespace to be gone",
        lambda: kube.get("Namespace", namespace.name),
        lambda found: found is None,
    )
