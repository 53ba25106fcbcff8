"""`kubectl message` on a cluster with the operator in it: what it says when something is broken.

What it says of an API server's refusals is tested in tests/faults/test_plugin.py, of an image that
cannot be pulled and of an operator that is stopped in test_operator.py, and of a namespace that is
not served in chart/test_scenarios.py.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kopf_kit.testing.requests import wait_until
from message_operator import __version__
from tests.e2e.messages import Namespace, Object
from tests.e2e.release import Operator
from tests.support.plugin import Plugin, support_bundle

PASSWORD = "swordfish"


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
    nodes = namespace.kubectl("get", "nodes", "-o", "name").split()
    namespace.kubectl("cordon", "--", *nodes)
    try:
        message = namespace.create("hello", "hello")
        message.wait_for_reason("Unschedulable")
        why = plugin("why", "hello", *here)
    finally:
        namespace.kubectl("uncordon", "--", *nodes)

    assert why.code == 1
    assert "unschedulable" in why.first
    assert why.part("Means").startswith("no node takes its Pod: none has room, or the Pod may not")
    message.wait_until_ready()


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "state", "event", "log"),
    [
        ({"image": "localhost:1/none:1"}, "ImagePull", "Failed to pull image", "waiting to start"),
        (
            {"args": ["--no-such-option"]},
            '"exitCode": 2',
            "Back-off restarting failed container",
            "unrecognized arguments: --no-such-option",
        ),
    ],
    ids=["without its image", "crashing"],
)
def test_an_operator_that_does_not_start_is_collected_without_secrets_and_texts(
    broken: Object,
    state: str,
    event: str,
    log: str,
    namespace: Namespace,
    operator: Operator,
    plugin: Plugin,
    tmp_path: Path,
) -> None:
    text = "my bank says hello"
    namespace.create("hello", text).wait_until_ready()
    secret = ("secret", "generic", "mine", f"--from-literal=password={PASSWORD}")
    namespace.kubectl("create", *secret)
    file = tmp_path / "support.tar.gz"

    with operator.stopped(), altered(operator, broken):
        wait_until(
            event,
            lambda: operator.kubectl("get", "events", "-o", "yaml"),
            lambda events: event in events,
        )
        bundle = plugin("support-bundle", "-f", str(file))

    assert bundle.code == 0, bundle.err
    files = support_bundle(file)
    ours = f"operators/{operator.namespace}/{operator.name}"
    assert state in files[f"{ours}/pods.json"]
    assert event in files[f"{ours}/events.json"]
    logs = {name: said for name, said in files.items() if name.startswith(f"{ours}/logs/")}
    assert log in "".join(logs.values()) + files["missing.txt"]
    assert "no replica of the operator is ready" in files["doctor.txt"]
    # The namespaces of other tests may be on their way out.
    message, pod = (
        found
        for kind in ("messages", "pods")
        for found in json.loads(files[f"{kind}.json"])
        if found["metadata"]["namespace"] == namespace.name
    )
    assert message["status"]["podName"] == pod["metadata"]["name"]
    assert pod["status"]["phase"] == "Running"
    everything = "".join(files.values())
    for private in (text, PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
        assert private not in everything


@contextmanager
def altered(operator: Operator, container: Object) -> Iterator[None]:
    """Have another container in the operator's Pod for a while, and a password in its settings."""
    proxy = {"name": "HTTPS_PROXY", "value": f"http://me:{PASSWORD}@proxy"}
    containers = [{"name": "operator", "env": [proxy], **container}]
    patch = {"spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}}
    deployment = f"deployment/{operator.name}"
    operator.kubectl("patch", deployment, f"--patch={json.dumps(patch)}")
    try:
        yield
    finally:
        operator.kubectl("rollout", "undo", deployment)
        operator.wait_until_ready()
