"""`--dry-run` prints what `kubectl diff` prints of the same manifests (a real API server)."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass

import kopf
import pytest

import kopf_runtime as kr
from faults import test_situations as situations
from faults.test_situations import KINDS, MODES, Case, Holder, desired
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.requests import Raw
from kopf_runtime.cluster import credentials
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET, SERVICE, STATEFUL_SET
from kopf_runtime.declaring.kinds import PERSISTENT_VOLUME_CLAIM as CLAIM
from runtime.support.running import NAME

pytestmark = pytest.mark.api

#: What only the API server tells: its own numbers, and that it writes 1024Mi as 1Gi.
UNTOLD = re.compile(r"[-+] +(generation|resourceVersion|storage):")
Changes = dict[str, set[str]]

case = situations.case


def changes(printed: str) -> Changes:
    """Return the lines that a diff removes or adds, by the object."""
    found: Changes = {}
    name = ""
    for line in printed.splitlines():
        if line.startswith(("--- ", "+++ ")):
            name = line.split("\t")[0].rpartition("/")[2]
        elif line[:1] in ("-", "+") and not UNTOLD.match(line):
            found.setdefault(name, set()).add(re.sub("['\"]", "", line))
    return found


def kubectl_diff(plane: ControlPlane, manifests: list[Raw], manager: str) -> tuple[int, Changes]:
    """Return the exit code of `kubectl diff`, and what it prints."""
    options = ("--server-side", "--force-conflicts", f"--field-manager={manager}", "--filename=-")
    done = subprocess.run(
        [
            *(tools.path("kubectl"), f"--server={plane.server}", f"--token={ADMIN}"),
            *("--insecure-skip-tls-verify", "diff", *options),
        ],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
        env={**os.environ, "KUBECONFIG": os.devnull, "KUBECTL_EXTERNAL_DIFF": "diff -u -N"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, changes(done.stdout)


@dataclass
class Compared:
    """A dry run of an operator, and kubectl with what that would send."""

    case: Case
    capsys: pytest.CaptureFixture[str]

    async def dry_run(self) -> tuple[int, Changes]:
        manager = kr.Manager(NAME, kr.Settings)
        manager.controllers.append(self.case.engine())
        self.capsys.readouterr()
        settings = kr.Settings(namespaces=(self.case.namespace,), dry_run=True)
        code = await manager._dry_run(settings)
        (self.runtime,) = manager.runtimes
        told = self.capsys.readouterr()
        assert told.err == ""
        return code, changes(told.out)

    async def kubectl(self) -> tuple[int, Changes]:
        templates, role = self.runtime.templates, ""
        bodies = [
            templates.body(wanted) or b""
            for owner in self.runtime.caches.owners
            for wanted in owner.wanted
        ]
        if MODES[self.case.mode].get("update") is kr.CREATE:
            bodies, role = [self.runtime.marks.only(body) for body in bodies], "-owner"
        manifests = list(map(json.loads, bodies))
        return await asyncio.to_thread(
            kubectl_diff, self.case.cluster.plane, manifests, f"{NAME}{role}"
        )


@pytest.fixture
def compared(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Compared:
    server = case.cluster.plane.server
    info = kopf.ConnectionInfo(server=server, token=ADMIN, insecure=True)
    monkeypatch.setattr(credentials, "find", lambda: info)
    return Compared(case, capsys)


def next_version(holder: Holder, context: object) -> Iterable[Raw]:
    """Return the children as the next version of the operator has them."""
    for child in desired(holder, context):
        match child["kind"]:
            case CONFIG_MAP.kind:
                child["data"] = {"text": "new", "number": "1"}
            case SECRET.kind:
                child["stringData"] = {"password": "new"}
            case SERVICE.kind:
                child["spec"]["ports"] = [{"name": "dns", "port": 53, "protocol": "TCP"}]
            case STATEFUL_SET.kind:
                template = deepcopy(child["spec"]["template"])
                env = [{"name": "A", "value": "c"}, {"name": "B", "value": "d"}]
                template["spec"]["containers"][0]["env"] = env
                child["spec"] |= {"replicas": 2, "template": template}
            case CLAIM.kind:
                child["metadata"]["labels"] = {"other": "label"}
            case situations.PART.kind:
                child["spec"]["members"] = [{"id": "b", "role": "new"}]
        yield child


@pytest.mark.parametrize("mode", ["apply"])
async def test_a_dry_run_prints_what_kubectl_diff_prints(case: Case, compared: Compared) -> None:
    assert await compared.dry_run() == await compared.kubectl() == (0, {})
    theirs = {"data": {"theirs": "kept"}, "metadata": {"labels": {"theirs": "kept"}}}
    await case.cluster.patch(f"{case.path(CONFIG_MAP)}?fieldManager=somebody", theirs)

    case.desired = next_version
    code, printed = await compared.dry_run()

    assert (code, printed) == await compared.kubectl()
    assert code == 1
    assert len(printed) == 6


@pytest.mark.parametrize(
    ("mode", "situation"), [("create", situations.owner_removed), ("chosen", situations.is_to_keep)]
)
async def test_a_dry_run_prints_whose_a_child_is_to_be(
    case: Case, compared: Compared, situation: Callable[[Case], Awaitable[None]]
) -> None:
    await situation(case)

    code, printed = await compared.dry_run()

    assert (code, printed) == await compared.kubectl()
    assert code == 1
    assert len(printed) == len(KINDS)
