"""Any name that the API server admits works, the longest included."""

import secrets

from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator

#: The CRD's bound, so that <namespace>_msg-<name>_<uid>, a directory, has at most 255 bytes.
LONGEST = 150


NAMES = (
    "a",
    "0",
    "hello.example.com",
    "msg-msg-hello",  # the prefix itself
    # The host name is the Pod's, cut to 63 characters: it must not end with a dot or a dash.
    "a" * 58 + ".b.c",
    "a" * 57 + "--b",
    "l" * 64,  # longer than a label
    "x" * 52 + ".0." + "y" * 60,
    # These begin alike.
    "s" * 120 + "-1",
    "s" * 120 + "-2",
)


def test_a_message_may_have_any_name_and_those_that_begin_alike_do_not_mix(
    namespace: Namespace,
) -> None:
    messages = [namespace.create(name, f"{number}") for number, name in enumerate(NAMES)]

    pods = [message.wait_until_ready() for message in messages]

    assert [pod["metadata"]["name"] for pod in pods] == [f"msg-{name}" for name in NAMES]
    instances = {pod["metadata"]["labels"]["app.kubernetes.io/instance"] for pod in pods}
    assert len(instances) == len(NAMES)
    for number, message in enumerate(messages):
        message.wait_for_log(f"{number}\n".encode())


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
