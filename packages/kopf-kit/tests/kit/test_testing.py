"""What an author's tests get: kubectl, an operator that is installed, and the simulated kubelet."""

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kopf_kit.cli import crd, deploy
from kopf_kit.image import build
from kopf_kit.project import nested
from kopf_kit.rig import paths
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import CommandError, KitError
from kopf_kit.testing import Kubectl, installed, plugin, push_image
from kopf_kit.testing.conformance import sequences
from kopf_kit.testing.kubelet import Kubelet
from kopf_kit.testing.requests import Cluster as ApiServer

#: Prints its arguments as JSON; fails with `no` for what is deleted.
_KUBECTL = """#!/usr/bin/env python3
import json, sys
if "delete" in sys.argv:
    sys.exit("no")
print(json.dumps({"arguments": sys.argv[1:], "stdin": sys.stdin.read()}))
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(_KUBECTL)
    program.chmod(0o755)
    made = Cluster("a", tmp_path / "kubeconfig", None, program, program, None, existing=True)
    return Kubectl(made, "home")


def test_it_asks_its_cluster_in_its_namespace(kubectl: Kubectl) -> None:
    to_it = ["--kubeconfig", str(kubectl.cluster.kubeconfig), "--namespace", "home"]

    assert kubectl.get("pods")["arguments"] == [*to_it, "get", "pods", "--output=json"]
    assert '"stdin": "text"' in kubectl("apply", "-f", "-", stdin="text")


def test_a_refusal_is_an_error_unless_it_is_expected(kubectl: Kubectl) -> None:
    with pytest.raises(CommandError, match="no"):
        kubectl("delete", "pod", "a")
    assert kubectl.refusal("delete", "pod", "a").endswith("no")
    with pytest.raises(AssertionError, match="get pods was not refused"):
        kubectl.refusal("get", "pods")


def test_a_namespace_is_given_once_it_takes_pods(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.cluster.kubectl.write_text(f'#!/bin/sh\necho "$5 $6 $7" >>{tmp_path}/calls\n')

    with installed.namespace(kubectl.cluster, "home"):
        calls = (tmp_path / "calls").read_text().splitlines()

    assert calls[1:] == ["create namespace home", "wait --for=create serviceaccount/default"]


def test_processes_that_test_side_by_side_share_an_operator(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl.cluster.kubectl.write_text("#!/bin/sh\n")
    done = list[str]()
    monkeypatch.setattr(nested, "ensure", lambda _: None)
    monkeypatch.setattr(deploy, "install", lambda *_: done.append("installed"))
    monkeypatch.setattr(crd, "delete", lambda _: done.append("removed"))
    users = tmp_path / "users"

    first, second = (installed.by_helm(kubectl.cluster, (), users) for _ in range(2))
    for user in (first, second):
        next(user)
    next(first, None)
    assert done == ["installed"]
    next(second, None)
    assert done == ["installed", "removed"]


def test_a_further_image_is_pushed_by_its_digest_for_the_kind_cluster_alone(
    kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("service/Dockerfile")
    with pytest.raises(KitError, match="service is built for the kind cluster; for yours, push"):
        push_image(kubectl.cluster, "service", file)
    monkeypatch.setattr(build, "build", lambda ref, _: ref)
    monkeypatch.setattr(build, "push", lambda ref: ref)
    monkeypatch.setattr(installed, "pinned", lambda ref: f"{ref}@sha256:1")

    pushed = push_image(replace(kubectl.cluster, registry="here:5000"), "service", file)

    assert pushed == "here:5000/service:dev@sha256:1"


def run(folder: Path, text: str, *options: str, cwd: Path | None = None) -> str:
    """Run pytest in a folder, which has no PROJECT, with one module; return what it printed."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto"]
    command += [str(folder), *options]
    done = subprocess.run(command, cwd=cwd or folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_an_operator_that_somebody_else_installed_is_taken_as_it_is(tmp_path: Path) -> None:
    text = """
import pytest
@pytest.fixture(scope='session')
def e2e_cluster(): return None
def test(installed): assert installed.namespace == 'operators'
"""

    said = run(tmp_path, text, "--installed-in=operators", cwd=paths.CHECKOUT)

    assert "1 passed" in said, said


async def test_t9_a_pod_of_a_megabyte_is_run() -> None:
    meta = {"name": "large", "namespace": "team", "uid": "u", "annotations": {"a": "x" * (1 << 20)}}
    pod = {"kind": "Pod", "metadata": meta, "spec": {}}
    bound = asyncio.Event()

    async def pods(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
        await bound.wait()
        return response

    async def bind(_: web.Request) -> web.Response:
        bound.set()
        return web.json_response({})

    application = web.Application()
    path = "/api/v1/namespaces/team/pods"
    application.add_routes([web.get(path, pods), web.post(f"{path}/large/binding", bind)])
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        plane: Any = SimpleNamespace(server=str(server.make_url("")).rstrip("/"))
        async with Kubelet(ApiServer(cast("Any", plane), session), "team").running():
            await asyncio.wait_for(bound.wait(), 30)


def test_the_plugin_imports_nothing_until_it_is_used(tmp_path: Path) -> None:
    text = (
        "import sys\ndef test(): assert not {'aiohttp', 'kopf', 'kopf_runtime'} & {*sys.modules}\n"
    )

    said = run(tmp_path, text, "-p", "no:kopf")

    assert "1 passed" in said, said


def test_the_suite_says_that_it_has_no_subjects() -> None:
    collected: Any = SimpleNamespace(
        function=sequences.test_there_and_back_again, module=SimpleNamespace(__file__="test_it.py")
    )

    with pytest.raises(pytest.UsageError, match=r"test_it\.py .*has no SUBJECTS"):
        plugin.pytest_generate_tests(collected)


def test_the_table_of_what_is_survived_names_the_rest(tmp_path: Path) -> None:
    text = """
class Subject:
    thorough, fails = True, {"test_b[it]": "it stays lost"}
    __str__ = lambda self: "it"
def test_a(subject): pass
def test_b(subject): raise ValueError
def test_c(subject): raise ValueError
def test_mine(): pass
for each in (test_a, test_b, test_c):
    each.__module__ = "kopf_kit.testing.conformance.sequences"
SUBJECTS = (Subject(),)
"""

    said = run(tmp_path, text, "--survived")

    assert (
        "| `sequences` | 1 of 3 |\n\n| not survived | why |\n|---|---|\n"
        "| `test_b[it]` | it stays lost |\n| `test_c[it]` | not expected |\n="
    ) in said, said


def test_a_missing_program_is_named_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES", "1.35")  # no program of this machine is that one for sure
    hidden = "import sys; sys.modules['kopf_offline'] = None\n"

    said = run(tmp_path, hidden + "def test(api_server): pass\n")

    assert re.search(r"needs .*KUBEBUILDER_ASSETS.*install kopf-offline", said), said
    assert "Traceback" not in said
