"""Any name that the API server admits works, the longest included."""

import secrets

import pytest

from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator

#: The CRD's bound, so that <namespace>_msg-<name>_<uid>, a directory, has at most 255 bytes.
LONGEST = 150


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a", id="one letter"),
        pytest.param("0", id="a digit"),
        pytest.param("hello.example.com", id="dots"),
        pytest.param("msg-msg-hello", id="the prefix itself"),
        # The host name is the Pod's, cut to 63 characters: it must not end with a dot or a dash.
        pytest.param("a" * 58 + ".b.c", id="cut at a dot"),
        pytest.param("a" * 57 + "--b", id="cut at a dash"),
        pytest.param("l" * 64, id="longer than a label"),
        pytest.param("x" * 52 + ".0." + "y" * 60, id="long with dots"),
    ],
)
def test_a_message_may_have_any_name(namespace: Namespace, name: str) -> None:
    message = namespace.create(name, "hello")

    pod = message.wait_until_ready()

    assert pod["metadata"]["name"] == f"msg-{name}"
    message.wait_for_log(b"hello\n")


def test_the_longest_name_runs_in_a_namespace_with_the_longest_name(
    kube: Kube, operator: Operator
) -> None:
    namespace = Namespace(kube, f"{secrets.token_hex(3)}-".ljust(63, "n"))
    namespace.make()
    try:
        message = namespace.create("m" * LONGEST, "hello")

        message.wait_until_ready()

        message.wait_for_log(b"hello\n")
        assert message.wait_for_event("Created")["involvedObject"]["name"] == message.name
    finally:
        namespace.remove()


def test_messages_whose_names_begin_alike_do_not_mix(namespace: Namespace) -> None:
    stem = "s" * 120
    one = namespace.create(f"{stem}-1", "one")
    two = namespace.create(f"{stem}-2", "two")

    pods = [one.wait_until_ready(), two.wait_until_ready()]

    instances = {pod["metadata"]["labels"]["app.kubernetes.io/instance"] for pod in pods}
    assert len(instances) == 2
    one.wait_for_log(b"one\n")
    two.wait_for_log(b"two\n")


def test_messages_of_the_same_name_in_two_namespaces_do_not_mix(
    namespace: Namespace, kube: Kube
) -> None:
    other = Namespace(kube, f"{namespace.name[:50]}-2")
    other.make()
    try:
        here = namespace.create("hello", "here")
        there = other.create("hello", "there")
        here.wait_until_ready()
        pod = there.wait_until_ready()

        here.delete()
        here.wait_until_gone()

        there.wait_for_log(b"there\n")
        assert there.wait_until_ready()["metadata"]["uid"] == pod["metadata"]["uid"]
    finally:
        other.remove()
