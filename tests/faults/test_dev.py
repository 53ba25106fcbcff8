"""`kopf-kit dev` on a real API server: restarts, mistakes, kinds, and the deployed operator."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.scaffold import repository
from kopf_kit.scaffold.repository import Answers
from kopf_kit.testing.api_server import kubectl

NAME = "loop-operator"
CRD = "loops.dev.example.com"
DEPLOYED: list[Any] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": NAME,
            "namespace": NAME,
            "labels": {"app.kubernetes.io/name": NAME},
        },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": NAME}},
                "spec": {"containers": [{"name": "operator", "image": "example.com/loop:1"}]},
            },
        },
    },
]


class Dev:
    """A repository, and `kopf-kit dev` in it."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.folder, self.plane = folder, plane
        self.code = folder / "operator" / "loop_operator" / "operator.py"
        self.log = folder.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str) -> None:
        options = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
        command = command or ("dev", "--", *options)
        settings = {"CLUSTER": "existing", "KUBECONFIG": str(self.plane.kubeconfig("admin"))}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                (sys.executable, "-m", "kopf_kit", *command),
                cwd=self.folder,
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, how: signal.Signals) -> int:
        assert self.process
        self.process.send_signal(how)
        return self.process.wait(60)

    def edit(self, former: str, text: str) -> None:
        code = self.code.read_text()
        assert former in code
        self.code.write_text(code.replace(former, text))

    def said(self) -> str:
        return self.log.read_text()

    def get(self, *arguments: str) -> Any:
        return json.loads(kubectl(self.plane, "get", *arguments, "-o", "json"))

    def replicas(self) -> int:
        replicas: int = self.get("deployment", NAME, "-n", NAME)["spec"]["replicas"]
        return replicas

    def seconds_of(self, act: Callable[[], None], ready: int) -> float:
        """Return the seconds from the act until an operator is ready for the n-th time."""
        began = time.monotonic()
        act()
        self.until(lambda: self.said().count("Ready; there") >= ready)
        return time.monotonic() - began

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < deadline, self.said()
            assert self.process, "not started"
            assert self.process.poll() is None, self.said()
            time.sleep(0.1)


@pytest.fixture
def dev(tmp_path: Path, plane: ControlPlane) -> Iterator[Dev]:
    folder = tmp_path / NAME
    repository.write(Answers(NAME, "Loop", "dev.example.com", olm=False), folder, lock=False)
    kubectl(plane, "apply", "-f", "-", stdin=DEPLOYED)
    dev = Dev(folder, plane)
    yield dev
    if dev.process:
        dev.process.kill()
        dev.process.wait()
    kubectl(plane, "delete", "--ignore-not-found", "--wait=false", "crd", CRD)
    kubectl(plane, "delete", "--wait=true", "deployment", NAME, "-n", NAME)


def test_a_saved_file_restarts_it_with_its_kind_and_the_deployed_one_is_paused(dev: Dev) -> None:
    first = dev.seconds_of(dev.start, ready=1)

    def columns() -> list[str]:
        (version,) = dev.get("crd", CRD)["spec"]["versions"]
        return [column["name"] for column in version["additionalPrinterColumns"]]

    assert dev.replicas() == 0

    column = 'kr.READY, kr.Column("Text", ".spec.text"), kr.REASON'
    again = dev.seconds_of(lambda: dev.edit("kr.READY, kr.REASON", column), ready=2)
    assert "Text" in columns()
    print(f"ready {first:.1f} s after the command, and {again:.1f} s after a file was saved")  # noqa: T201
    assert again < first

    assert dev.end(signal.SIGINT) == 0
    assert dev.replicas() == 2


def test_a_mistake_is_shown_once_with_its_lines_and_a_mended_one_runs(dev: Dev) -> None:
    code = dev.code.read_text()
    dev.code.write_text(code.replace("controller.owns(", "controller.has("))
    dev.start()
    dev.until(lambda: "the operator ended (1); a change of its code starts it" in dev.said())
    assert dev.said().count("object has no attribute 'has'") == 1
    assert re.search(r"operator\.py:\d+: .*object has no attribute 'has'", dev.said())
    assert "Traceback" not in dev.said()

    dev.code.write_text(code.replace("    yield {", '    raise ValueError("no plan")\n    yield {'))
    dev.until(lambda: "Ready; there" in dev.said())
    loop: dict[str, Any] = {"apiVersion": "dev.example.com/v1alpha1", "kind": "Loop"}
    loop |= {"metadata": {"name": "one", "namespace": NAME}}
    kubectl(dev.plane, "apply", "-f", "-", stdin=[loop])
    dev.until(lambda: "ValueError: no plan" in dev.said())
    assert re.search(r'operator\.py", line \d+, in desired\n +raise ValueError', dev.said())

    dev.code.write_text(code)
    dev.until(lambda: dev.said().count("Ready; there") == 2)
    dev.until(lambda: "one" in kubectl(dev.plane, "get", "configmaps", "-n", NAME))
    assert dev.said().count("Traceback") == 1


@pytest.mark.long
def test_what_a_killed_one_left_paused_is_told_and_resumed(dev: Dev) -> None:
    dev.start()
    dev.until(lambda: "Ready; there" in dev.said())
    dev.end(signal.SIGKILL)
    assert dev.replicas() == 0

    dev.start()
    dev.until(lambda: "Ready; there" in dev.said())
    assert "note: another `kopf-kit dev` left the operator" in dev.said()
    assert dev.end(signal.SIGTERM) == 0

    assert dev.replicas() == 2
    assert f"The operator {NAME}/{NAME} is no longer paused: replicas 2." in dev.said()


@pytest.mark.long
def test_a_deploy_resumes_what_a_killed_one_left_paused(dev: Dev) -> None:
    dev.start()
    dev.until(lambda: "Ready; there" in dev.said())
    dev.end(signal.SIGKILL)

    dev.start("deploy")
    dev.until(lambda: "is no longer paused: replicas 2." in dev.said())
    dev.end(signal.SIGTERM)

    assert dev.replicas() == 2
