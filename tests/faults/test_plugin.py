"""`kubectl message` says of each trouble what it is and what to do, by a real API server's words.

What it says of an operator in a cluster, tests/e2e/alone/test_plugin.py holds it to.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.webhook import webhook
from kopf_kit.testing.world import World
from tests.faults.messages import foreign_pod, running
from tests.support.plugin import Plugin, Said, support_bundle


@pytest.fixture
def run(here: World, tmp_path: Path) -> Callable[..., Any]:
    """Run the plugin in the test's namespace, beside the operator."""
    plugin = Plugin(tmp_path, tools.path("kubectl"), here.cluster.plane.kubeconfig(ADMIN))

    async def run(*arguments: str, **environment: str) -> Said:
        where = ("--namespace", here.namespace)
        return await asyncio.to_thread(plugin, *arguments, *where, **environment)

    return run


async def quota(here: World) -> str:
    """Allow no more Pods; return the path of the quota, once it counts."""
    path = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    body = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await here.cluster.ask("POST", path, body)
    async with here.within(60, "the quota counts"):
        while not (await here.cluster.ask("GET", f"{path}/none")).get("status", {}).get("hard"):
            await asyncio.sleep(0.1)
    return f"{path}/none"


async def test_why_tells_what_is_in_the_way_and_what_to_do(
    here: World, run: Callable[..., Any]
) -> None:
    await here.start()
    await here.create("안녕하세요, 오퍼레이터!", "well")
    await here.wait_until_ready("well")
    await here.cluster.ask("POST", here.children, foreign_pod("taken"))
    await here.create("하나", "taken")
    await here.until_reason("Conflict", "taken")

    well, taken = await run("why", "well"), await run("why", "taken")
    assert (well.code, well.first) == (0, "Message well: it is ready.")
    assert taken.code == 1
    assert taken.first.startswith("Message taken: Pod msg-taken exists and does not belong to")
    assert taken.part("Reason").startswith("Conflict, for ")
    assert taken.part("Means").startswith("somebody else's object already has the name")
    assert "hand that object over as the message says" in taken.part("Do")
    assert taken.part("More").endswith("/docs/runbooks.md#messageoperatormessagesfailed")

    none = await quota(here)
    await here.create("둘", "no-room")
    await here.until_reason("Forbidden", "no-room")
    told = await run("why", "no-room")
    assert told.first == (
        "Message no-room: a quota of the namespace leaves no room for what it needs."
    )
    assert "exceeded quota: none" in told.part("Details")
    assert "describe resourcequota" in told.part("Do")
    await here.cluster.remove(none)

    async def refuses(_: Raw) -> str:
        return "ask the platform team"

    async with webhook(here.cluster, here.namespace, refuses):
        await here.create("셋", "refused")
        async with here.within(60, "the webhook refuses"):
            while "ask the platform team" not in json.dumps(await here.condition("refused")):
                await asyncio.sleep(0.1)
        told = await run("why", "refused")
    assert told.first == "Message refused: an admission webhook refuses what it needs."
    assert "ask the platform team" in told.part("Details")

    table = await run("status")
    assert table.code == 0
    rows = {line.split()[0]: line for line in table.out.splitlines() if line}
    assert rows["message/well"].split()[1] == "True"
    assert "Conflict: Pod msg-taken exists" in rows["message/taken"]


async def test_why_tells_a_failing_webhook_and_an_operator_that_does_not_look(
    here: World, run: Callable[..., Any]
) -> None:
    await here.create("하나", "early")
    early = await run("why", "early")
    assert (early.code, early.first) == (1, "Message early: no operator is installed.")
    assert "helm install" in early.part("Do")
    denied = await run("why", "early", "--as=somebody", "--as-group=system:masters")
    assert denied.first == early.first, "the options of kubectl are passed on"

    await here.start()
    await here.wait_until_ready("early")
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    nowhere: Raw = {
        "metadata": {"name": f"gone-{here.namespace}"},
        "webhooks": [
            {
                "name": "gone.example.com",
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": here.namespace}
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
            }
        ],
    }
    await here.cluster.ask("POST", path, nowhere)
    try:
        await here.create("둘", "waits")
        await here.until_reason("InternalError", "waits")
        told = await run("why", "waits")
    finally:
        await here.cluster.remove(f"{path}/gone-{here.namespace}")
    assert told.first == (
        "Message waits: an admission webhook does not answer, so nothing can be created."
    )
    assert "gone.example.com" in told.part("Details")
    assert "get validatingwebhookconfigurations" in told.part("Do")


async def test_when_it_cannot_tell_it_says_why_and_ends_with_3(
    here: World, run: Callable[..., Any], tmp_path: Path
) -> None:
    await here.create("하나", "hello-msg")
    unreachable = tmp_path / "unreachable"
    plane = here.cluster.plane.kubeconfig(ADMIN).read_text()
    unreachable.write_text(plane.replace(here.cluster.plane.server, "https://127.0.0.1:1"))
    said = {
        "wrong name": await run("why", "helo-msg"),
        "no right": await run("status", "--as=nobody"),
        "no login": await run("status", "--user=nobody"),
        "no cluster": await run("doctor", f"--kubeconfig={unreachable}"),
        "no kubectl": await run("status", PATH="/nowhere"),
    }

    assert {what: told.code for what, told in said.items()} == dict.fromkeys(said, 3)
    lines = {what: told.err.splitlines() for what, told in said.items()}
    assert lines["wrong name"] == [
        f"kubectl message: there is no Message helo-msg in the namespace {here.namespace}",
        "  Did you mean hello-msg?",
    ]
    assert lines["no right"][0] == "kubectl message: The cluster does not allow you to look."
    assert 'User "nobody" cannot list' in lines["no right"][2]
    for what, word in {"no login": '"nobody" does not exist', "no cluster": "refused"}.items():
        assert lines[what][0] == "kubectl message: kubectl has failed."
        assert word in said[what].err
    assert lines["no kubectl"][0] == "kubectl message: kubectl is not installed."


def test_the_plugin_says_that_the_kind_is_missing(tmp_path: Path) -> None:
    with running() as plane:
        plugin = Plugin(tmp_path, tools.path("kubectl"), plane.kubeconfig(ADMIN))
        status, doctor = plugin("status"), plugin("doctor")

    assert (status.code, status.err.splitlines()[0]) == (
        3,
        "kubectl message: The cluster does not know the kind Message: its CRD is missing.",
    )
    assert doctor.code == 1
    assert "✗ Kind         the CRD messages.myorg.dev is missing" in doctor.out
    assert "✗ Operator     no operator is installed" in doctor.out
    assert "runbooks.md#messageoperatorunserved" in doctor.out


async def test_r1_an_administrators_token_goes_nowhere(
    here: World, run: Callable[..., Any]
) -> None:
    await here.start()
    await here.create("하나", "hello-msg")
    await here.wait_until_ready("hello-msg")
    deployments = f"/apis/apps/v1/namespaces/{here.namespace}/deployments"
    with listening() as (port, heard):
        elsewhere = f"--server=https://127.0.0.1:{port}"
        await here.cluster.ask("POST", deployments, look_alike(f"--lease-name={elsewhere}"))
        wrong = {"status": {"podName": elsewhere}}
        with pytest.raises(RefusedError, match=r"podName: .* should match"):
            await here.cluster.patch(f"{here.object('hello-msg')}/status", wrong)

        doctor, why = await run("doctor"), await run("why", "hello-msg")

    assert heard == []
    assert f"ignored: {here.namespace}/message-operator" in doctor.out
    assert "no operator is installed" in doctor.out, "the one of the test runs outside the cluster"
    assert why.first == "Message hello-msg: it is ready."


def look_alike(*arguments: str) -> Raw:
    """Return a Deployment that somebody who may edit a namespace can create there."""
    labels = {"app.kubernetes.io/name": "message-operator"}
    container = {
        "name": "operator",
        "image": "registry.invalid/none",
        "args": ["--all-namespaces", "--message-image=a", "--leader-elect", *arguments],
    }
    return {
        "metadata": {"name": "message-operator", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def test_a_support_bundle_of_a_broken_cluster_hides_the_texts(
    here: World, run: Callable[..., Any], tmp_path: Path
) -> None:
    await here.start()
    none = await quota(here)
    await here.create("안녕하세요, my password is swordfish", "no-room")
    await here.until_reason("Forbidden", "no-room")
    secret = {"metadata": {"name": "mine"}, "stringData": {"password": "hunter2"}}
    await here.cluster.ask("POST", f"/api/v1/namespaces/{here.namespace}/secrets", secret)
    file = tmp_path / "support.tar.gz"

    told = await run("support-bundle", "-f", str(file))
    denied = await run("support-bundle", "-f", str(tmp_path / "denied"), "--as=nobody")

    assert (told.code, denied.code) == (0, 0)
    files = support_bundle(file)
    [message] = [
        item
        for item in json.loads(files["messages.json"])
        if item["metadata"]["name"] == "no-room" and item["metadata"]["namespace"] == here.namespace
    ]
    [condition] = message["status"]["conditions"]
    assert (message["spec"]["text"], condition["reason"]) == ("<hidden>", "Forbidden")
    assert "exceeded quota: none" in condition["message"]
    assert "messages.myorg.dev" in files["crds/messages.json"]
    assert "no operator is installed" in files["doctor.txt"], "the test's runs outside"
    assert "swordfish" not in "".join(files.values())
    assert "hunter2" not in "".join(files.values())
    assert 'User "nobody" cannot list' in support_bundle(tmp_path / "denied")["missing.txt"]
    await here.cluster.remove(none)


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """Listen on loopback; yield the port, and a list of what each connection sent first."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(65536))

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
