"""`helm test` asks the operator itself, with nothing but the operator's own image."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from chart.helm import FULLNAME, NAMESPACE, Manifest, container, find, names, pod, render

HOST = f"{FULLNAME}-metrics.{NAMESPACE}.svc"


def test_pod(**values: object) -> Manifest:
    """Return the Pod of the test."""
    return find(render(values), "Pod", f"{FULLNAME}-test")


test_pod.__test__ = False  # type: ignore[attr-defined]


def test_it_runs_when_asked_and_keeps_its_log_until_the_next_time() -> None:
    # With hook-succeeded Helm 3 deletes the Pod before `helm test --logs` reads what it printed.
    assert test_pod()["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation",
    }


def test_it_needs_no_other_image_no_shell_and_no_rights() -> None:
    spec = test_pod()["spec"]
    (only,) = spec["containers"]

    assert only["image"] == container()["image"]
    assert only["command"] == ["python3", "-c"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec


def test_p12_it_is_admitted_and_scheduled_where_the_operator_is() -> None:
    nodes: Manifest = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    values: Manifest = {
        "priorityClassName": "high",
        "runtimeClassName": "gvisor",
        "nodeSelector": {"pool": "a"},
        "affinity": {"nodeAffinity": nodes, "podAntiAffinity": {}},
        "podLabels": {"sidecar.istio.io/inject": "false", "app.kubernetes.io/name": "lost"},
        "podAnnotations": {"policy": "b", "helm.sh/hook": "lost"},
    }

    test = test_pod(**values)

    spec, metadata = test["spec"], test["metadata"]
    for field in ("priorityClassName", "runtimeClassName", "nodeSelector"):
        assert spec[field] == pod(values)["spec"][field]
    # Beside the operator it would not even run if it had to avoid the operator.
    assert spec["affinity"] == {"nodeAffinity": nodes}
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["labels"]["app.kubernetes.io/name"].endswith("-test")
    assert metadata["annotations"]["policy"] == "b"
    assert metadata["annotations"]["helm.sh/hook"] == "test"


def test_the_operator_s_service_does_not_lead_to_it() -> None:
    labels = test_pod()["metadata"]["labels"]
    service = find(render(), "Service", f"{FULLNAME}-metrics")

    assert not service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= pod()["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "values",
    [
        {"tests": {"enabled": False}},
        {"metrics": {"service": {"enabled": False}}},
        {"replicaCount": 0},
    ],
    ids=str,
)
def test_there_is_none_where_there_is_nothing_to_ask(values: dict[str, object]) -> None:
    assert "Pod" not in {kind for kind, _, _ in names(render(values))}


METRICS = 'widget_operator_build_info{version="1"} 1.0\npython_info 1.0\n'


@asynccontextmanager
async def serving(
    metrics: str = METRICS, authority: trustme.CA | None = None, status: int = 200
) -> AsyncIterator[int]:
    """Answer as the operator does, by HTTPS if there is an authority; give the port."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="ok" if request.path == "/readyz" else metrics, status=status)

    application = web.Application()
    application.add_routes([web.get("/readyz", answer), web.get("/metrics", answer)])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if authority else None
    if authority and tls:
        authority.issue_cert("127.0.0.1").configure_cert(tls)
    server = TestServer(application)
    await server.start_server(ssl=tls)
    try:
        yield server.port or 0
    finally:
        await server.close()


async def ask(
    port: int, secure_port: int = 0, authority: str = "", **values: object
) -> subprocess.CompletedProcess[str]:
    """Run the test's program against ports of this machine, with the authority that it is given."""
    (only,) = test_pod(**values)["spec"]["containers"]
    (program,) = only["args"]
    assert program.count(HOST) == 2
    program = program.replace("range(30)", "range(1)").replace("time.sleep(1)", "")
    program = program.replace("/etc/metrics-ca/ca.crt", authority)
    program = program.replace(f"https://{HOST}:8080", f"https://127.0.0.1:{secure_port}")
    for service_port in ("8080", "8081"):
        program = program.replace(f"{HOST}:{service_port}", f"127.0.0.1:{port}")
    command = [sys.executable, "-c", program]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=300, check=False
    )


async def test_it_shows_what_the_operator_answers() -> None:
    async with serving() as port:
        asked = await ask(port)

    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout == (
        '/readyz: ok\n/metrics:\n  widget_operator_build_info{version="1"} 1.0\n'
    )


async def test_it_fails_with_a_reason_when_nothing_answers() -> None:
    asked = await ask(1)

    assert asked.returncode == 1
    assert "/readyz did not answer: see the operator's log" in asked.stderr


async def test_it_fails_when_something_else_answers() -> None:
    async with serving("else 1\n") as port:
        asked = await ask(port)

    assert (asked.returncode, asked.stderr) == (1, "/metrics is not the widget-operator's\n")


SECURE = {"metrics": {"secure": {"enabled": True, "secretName": "certificate"}}}


@pytest.mark.parametrize(
    ("status", "trusted", "said"),
    [
        (401, "its", "/metrics: Unauthorized\n"),
        (401, "none", "/metrics: Unauthorized\n"),  # the Secret has no ca.crt
        (401, "another", "did not answer"),
        (200, "its", "did not answer"),
    ],
    ids=["protected", "no authority", "another authority", "open"],
)
async def test_it_finds_out_whether_secure_metrics_are_protected(
    tmp_path: Path, status: int, trusted: str, said: str
) -> None:
    authority = trustme.CA()
    file = tmp_path / "ca.crt"
    if trusted != "none":
        (authority if trusted == "its" else trustme.CA()).cert_pem.write_to_path(file)
    secure = serving("Unauthorized" if status == 401 else METRICS, authority, status)
    async with serving() as port, secure as secure_port:
        asked = await ask(port, secure_port, str(file), **SECURE)

    assert said in (asked.stderr if asked.returncode else asked.stdout)
    assert "/readyz: ok\n" in asked.stdout


def test_of_the_certificate_it_is_given_the_authority_alone() -> None:
    (volume,) = test_pod(**SECURE)["spec"]["volumes"]

    assert [item["key"] for item in volume["secret"]["items"]] == ["ca.crt"]
    assert volume["secret"]["optional"] is True
