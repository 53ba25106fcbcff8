"""`kubectl message` on a cluster with the operator in it: what it says when something is broken.

What it says of an API server's refusals, and what it collects, is tested in
tests/faults/test_plugin.py, of an image that cannot be pulled and of an operator that is stopped in
test_operator.py, and of a namespace that is not served in chart/test_scenarios.py.
"""

import pytest

from kopf_kit.testing.requests import wait_until
from message_operator import __version__
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator
from tests.support.plugin import Plugin


def test_all_is_well(namespace: Namespace, operator: Operator, plugin: Plugin) -> None:
    here = ("-n", namespace.name)
    namespace.create("hello", "안녕하세요, 오퍼레이터!").wait_until_ready()
    leader = wait_until("somebody to lead", operator.leader, bool)

    # The namespaces of other tests may be on their way out, and Messages in them.
    doctor = wait_until(
        "all to be well",
        lambda: plugin("doctor"),
        lambda told: told.out.endswith("All is well.\n"),
    )
    why = plugin("why", "hello", *here)

    lines = doctor.out.splitlines()
    assert [line[:15].rstrip() for line in lines[:8]] == [
        f"✓ {title}"
        for title in (
            "Cluster",
            "Kind",
            "Operator",
            "Ready",
            "Leader",
            "Rights",
            "Namespaces",
            "Messages",
        )
    ], doctor.out
    assert lines[1].endswith(f"messages.myorg.dev/v1 ({__version__})")
    assert lines[2].endswith(f"{operator.namespace}/{operator.name} ({__version__})")
    assert lines[4].endswith(f"{leader} leads")
    assert doctor.code == 0
    assert (why.code, why.first) == (0, "Message hello: it is ready.")


@pytest.mark.long
def test_a_pod_that_no_node_takes(namespace: Namespace, plugin: Plugin) -> None:
    here = ("-n", namespace.name)
    nodes = namespace.kube.kubectl("get", "nodes", "-o", "name").split()
    namespace.kube.kubectl("cordon", "--", *nodes)
    try:
        message = namespace.create("hello", "hello")
        message.wait_for_reason("Unschedulable")
        why = plugin("why", "hello", *here)
    finally:
        namespace.kube.kubectl("uncordon", "--", *nodes)

    assert why.code == 1
    assert why.first == (
        "Message hello: no node takes its Pod: none has room, or the Pod may not run there."
    )
    assert "unschedulable" in why.part("Details")
    message.wait_until_ready()
