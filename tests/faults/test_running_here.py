"""`kopf-kit run` for a kind of several versions, on a real API server that asks it to convert."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kit.project import nested
from kopf_kit.project.definition import load
from kopf_kit.rig import tools
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing.requests import Cluster, RefusedError
from kopf_runtime.declaring.kinds import Kind

pytestmark = pytest.mark.api

PROJECT = nested.ensure(load(CHECKOUT / "examples" / "memcached"))
ALPHA = Kind("cache.example.com", "v1alpha1", "memcacheds", "Memcached")
BETA = ALPHA._replace(version="v1beta1")
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{ALPHA}"


#: The API server runs here, without a container, as if kopf-kit had created its cluster.
OWN = """
from dataclasses import replace
from kopf_kit import __main__
from kopf_kit.rig import cluster
found = cluster._existing
cluster._existing = lambda: replace(found(), existing=False)
cluster.address_here = lambda asked: "127.0.0.1"
raise SystemExit(__main__.main())
"""
KIT = (sys.executable, "-c", OWN)


def started(api: Cluster, log: Path, *words: str | Path) -> subprocess.Popen[bytes]:
    config = str(api.plane.kubeconfig("admin"))
    with log.open("ab") as file:
        return subprocess.Popen(
            words,
            cwd=PROJECT.root,
            env={**os.environ, "CLUSTER": "existing", "KUBECONFIG": config},
            stdout=file,
            stderr=file,
        )


async def test_run_converts_if_nobody_else_does_and_install_gives_the_service_back(
    api: Cluster, tmp_path: Path
) -> None:
    log, namespace = tmp_path / "log", await api.new_namespace("restricted")
    body = {"apiVersion": ALPHA.api_version, "kind": ALPHA.kind, "metadata": {"name": "one"}}
    spec = {"size": 2}

    async def conversion() -> dict[str, object]:
        crd = await api.ask("GET", CRD)
        asked: dict[str, object] = crd["spec"]["conversion"]["webhook"]["clientConfig"]
        return asked

    async def done(*words: str | Path) -> None:
        code = await asyncio.to_thread(started(api, log, *words).wait, 120)
        assert code == 0, log.read_text()

    assert await asyncio.to_thread(started(api, log, *KIT, "run", "--dry-run").wait, 120) == 2
    with pytest.raises(RefusedError, match="not found"):  # it writes nothing, no CRD either
        await conversion()
    release = ("memcached-operator", PROJECT.chart, "--namespace=memcached-operator")
    await done(tools.path("helm"), "install", *release, "--create-namespace")
    assert await asyncio.to_thread(started(api, log, *KIT, "run").wait, 120) == 1
    assert "only one can; run `kopf-kit undeploy` first" in log.read_text()
    assert {*await conversion()} == {"service"}
    await done(tools.path("helm"), "uninstall", "memcached-operator", release[2])
    running = started(api, log, *KIT, "run", "--namespace", namespace)
    try:
        async with asyncio.timeout(120):
            while True:
                assert running.poll() is None, log.read_text()
                try:
                    await api.ask("POST", ALPHA.path(namespace), {**body, "spec": spec})
                    found = await api.ask("GET", BETA.path(namespace, "one"))
                    break
                except RefusedError:
                    await api.remove(ALPHA.path(namespace, "one"))
                await asyncio.sleep(0.2)
        assert found["spec"]["replicas"] == 2
        assert {*await conversion()} == {"url", "caBundle"}
    finally:
        running.send_signal(signal.SIGTERM)
        await asyncio.to_thread(running.wait, 60)
    await api.remove(ALPHA.path(namespace, "one"))

    await done(*KIT, "install")
    assert {*await conversion()} == {"service"}
    await api.remove(CRD)
