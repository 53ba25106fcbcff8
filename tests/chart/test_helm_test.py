"""`helm test` asks the operator itself, with nothing but the operator's own image."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.chart.helm import (
    CHART,
    FULLNAME,
    NAMESPACE,
    NEWEST_KUBERNETES,
    RELEASE,
    Manifest,
    container,
    find,
    helm,
    names,
    pod,
    render,
)

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


class Operator(http.server.BaseHTTPRequestHandler):
    """Answers as the operator does."""

    answers: ClassVar = {
        "/readyz": b"ok",
        "/metrics": b'message_operator_build_info{version="1"} 1.0\npython_info 1.0\n',
    }

    def do_GET(self) -> None:
        answer = self.answers.get(self.path)
        self.send_response(200 if answer else 404)
        self.end_headers()
        self.wfile.write(answer or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of something that answers as the operator does."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Operator)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port: int, **values: object) -> subprocess.CompletedProcess[str]:
    """Run the test's program against a port of this machine."""
    (only,) = test_pod(**values)["spec"]["containers"]
    (program,) = only["args"]
    assert program.count(HOST) == 2
    program = program.replace("range(30)", "range(1)").replace("time.sleep(1)", "")
    for service_port in ("8080", "8081"):
        program = program.replace(f"{HOST}:{service_port}", f"127.0.0.1:{port}")
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )


def test_it_shows_what_the_operator_answers(port: int) -> None:
    asked = ask(port)

    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout == (
        '/readyz: ok\n/metrics:\n  message_operator_build_info{version="1"} 1.0\n'
    )


def test_it_fails_with_a_reason_when_nothing_answers() -> None:
    asked = ask(1)

    assert asked.returncode == 1
    assert "/readyz did not answer: see the operator's log" in asked.stderr


def test_it_fails_when_something_else_answers(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Operator.answers, "/metrics", b"else 1\n")

    asked = ask(port)

    assert (asked.returncode, asked.stderr) == (1, "/metrics is not the message-operator's\n")


def test_it_is_left_out_where_plain_manifests_are_applied() -> None:
    rendered = helm("template", RELEASE, CHART, "--kube-version", NEWEST_KUBERNETES, "--skip-tests")

    assert "\nkind: Pod\n" not in rendered
