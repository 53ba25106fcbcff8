"""Argo CD's health check for Messages, run by a real Lua on what the operator writes."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lupa import lua51

from chart.helm import CHART, Manifest
from kopf_kit.project import documents
from kopf_kit.rig import tools
from kopf_kit.rig.paths import CHECKOUT
from kopf_runtime.declaring import conditions
from kopf_runtime.declaring.conditions import Status

SCRIPT = CHECKOUT / "examples" / "argocd" / "health.lua"
#: What Argo CD does not load unless it is told to (`useOpenLibs`).
CLOSED = ("string", "math", "io", "os", "debug", "package", "require")

READY = Status(True, "PodRunning", "The Pod prints the text.", {"phase": "Processed"})
PENDING = Status(False, "Unschedulable", "No node has room.", {"phase": "Pending"})
FAILED = Status(False, "ErrImagePull", "No such image.", {"phase": "Failed"})


def message(written: Status | None = None, *, generation: int = 1, seen: int = 1) -> Manifest:
    """Return a Message with the status that the operator writes."""
    metadata = {"name": "hello", "generation": generation}
    found = {"apiVersion": "myorg.dev/v1", "kind": "Message", "metadata": metadata}
    return found | ({"status": conditions.build({}, seen, written)} if written else {})


def health(found: Manifest) -> tuple[str, str]:
    """Return the health and its message, as Argo CD asks for them."""
    lua = lua51.LuaRuntime()
    for library in CLOSED:
        lua.globals()[library] = None
    lua.globals().obj = lua.table_from(found, recursive=True)
    answer: Any = lua.execute(SCRIPT.read_text())
    return answer.status, answer.message


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (message(READY), ("Healthy", "The Pod prints the text.")),
        (message(PENDING), ("Progressing", "No node has room.")),
        (message(FAILED), ("Degraded", "No such image.")),
        (message(), ("Progressing", "No operator has looked at the Message yet.")),
        (
            message(READY, generation=2, seen=1),
            ("Progressing", "The operator has not seen the latest edit yet."),
        ),
        (
            message(FAILED, generation=2, seen=1),
            ("Progressing", "The operator has not seen the latest edit yet."),
        ),
    ],
    ids=["ready", "pending", "failed", "new", "edited", "failed-then-edited"],
)
def test_it_says_what_the_status_says(found: Manifest, expected: tuple[str, str]) -> None:
    assert health(found) == expected


def test_a_message_that_is_being_deleted_is_on_its_way() -> None:
    found = message(READY)
    found["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"

    assert health(found) == ("Progressing", "The Message is being deleted.")


def test_a_message_that_cannot_be_read_is_degraded_whatever_its_phase_was() -> None:
    found = message(READY)
    unreadable = conditions.build({}, 1, Status(False, "Unreadable", "spec.text is no text"))
    found["status"]["conditions"] = unreadable["conditions"]  # all that the operator then writes

    assert health(found) == ("Degraded", "spec.text is no text")


def test_conditions_of_others_do_not_count() -> None:
    found = message(FAILED)
    theirs = {"type": "Reviewed", "status": "True", "message": "Well.", "observedGeneration": 1}
    found["status"]["conditions"].insert(0, theirs)

    assert health(found) == ("Degraded", "No such image.")


def test_the_readme_s_command_puts_it_where_argo_cd_looks(tmp_path: Path) -> None:
    text = (CHART / "README.md").read_text()
    (command,) = re.findall(r"\$ kubectl (create configmap argocd-cm .*?) \|", text, re.DOTALL)
    in_place = command.replace("\\\n", " ").replace("examples/", f"{CHECKOUT}/examples/")

    done = subprocess.run(
        [tools.path("kubectl"), *shlex.split(in_place)],
        env={"KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    patch = documents.load(done.stdout)
    assert patch["metadata"]["namespace"] == "argocd"
    # https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
    assert patch["data"] == {"resource.customizations.health.myorg.dev_Message": SCRIPT.read_text()}
