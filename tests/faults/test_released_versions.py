"""Helm moves a kind between releases with one and two versions, on a real API server.

The chart is that of Memcached. No operator converts here: what is stored must be read
all the same. docs/versions.md has the commands.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from chart.helm import HELM_3_IN_TIME, helm, render
from kopf_kit.project import nested
from kopf_kit.project.definition import load
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing.api_server import kubectl
from kopf_kit.testing.requests import Cluster, RefusedError
from kopf_runtime.declaring.kinds import Kind

pytestmark = pytest.mark.api

PROJECT = nested.ensure(load(CHECKOUT / "examples" / "memcached"))
CHART = PROJECT.chart
ALPHA = Kind("cache.example.com", "v1alpha1", "memcacheds", "Memcached")
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{ALPHA}"
BOTH = ["v1beta1", "v1alpha1"]
PAGE = (CHECKOUT / "docs" / "versions.md").read_text()


@dataclass
class Release:
    """A release in a namespace of its own."""

    api: Cluster
    program: str
    namespace: str
    reads: int = 0

    async def helm(self, *arguments: str | Path) -> None:
        """Run Helm, which must succeed, while the object of `store` is read in its version."""
        running = asyncio.create_task(asyncio.to_thread(self._run, *arguments))
        while not running.done():
            await asyncio.sleep(0.02)
            if self.reads:
                await self.api.ask("GET", self.object())
                self.reads += 1
        await running

    def _run(self, *arguments: str | Path) -> None:
        done = subprocess.run(
            [tools.path(self.program), "--namespace", self.namespace, *arguments],
            env={**os.environ, "KUBECONFIG": str(self.api.plane.kubeconfig("admin"))},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    def object(self, version: str = "v1alpha1") -> str:
        return ALPHA._replace(version=version).path(self.namespace, "one")

    async def store(self) -> None:
        await self.api.serves(ALPHA)
        body = {"apiVersion": ALPHA.api_version, "kind": ALPHA.kind, "metadata": {"name": "one"}}
        await self.api.ask("POST", ALPHA.path(self.namespace), body)
        self.reads = 1

    async def served(self) -> list[str]:
        crd = await self.api.ask("GET", CRD)
        return [version["name"] for version in crd["spec"]["versions"] if version["served"]]

    async def authority(self, write: bool = False) -> str:
        """Return the caBundle; write one before, as the operator and cert-manager do."""
        if write:
            file = self.api.plane.certificates / "apiserver.crt"
            client = {"caBundle": base64.b64encode(file.read_bytes()).decode()}
            webhook = {"webhook": {"clientConfig": client}}
            await self.api.patch(CRD, {"spec": {"conversion": webhook}})
        crd = await self.api.ask("GET", CRD)
        found: str = crd["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", "")
        return found


@pytest.fixture(params=HELM_3_IN_TIME)
async def release(request: pytest.FixtureRequest, api: Cluster) -> AsyncIterator[Release]:
    """Return a release of the version before, which has the stored version alone."""
    one = Release(api, request.param, await api.new_namespace("restricted"))
    yield one
    for role in ("view", "edit", "admin"):
        await api.remove(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ALPHA}-{role}")
    await api.remove(CRD)
    while await api.find(CRD):
        await asyncio.sleep(0.1)
    await api.remove(f"/api/v1/namespaces/{one.namespace}")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Return the chart of the release before, with the stored version alone."""
    chart = tmp_path / CHART.name
    shutil.copytree(CHART, chart)
    file = chart / "templates" / "crd.yaml"
    text = file.read_text()
    for part in (r"  - name: v1beta1\n.*?(?=  - name: v1alpha1)", r"  conversion:\n(?:   .*\n)+"):
        text, count = re.subn(part, "", text, flags=re.DOTALL if "beta" in part else 0)
        assert count == 1
    file.write_text(text)
    return chart


@pytest.mark.long
async def test_what_is_stored_is_read_during_upgrade_and_rollback(
    release: Release, before: Path
) -> None:
    await release.helm("install", "kind", before)
    await release.store()

    await release.helm("upgrade", "kind", CHART)
    authority = await release.authority(write=True)
    await release.helm("upgrade", "kind", CHART, "--set=crds.labels.a=b")
    assert await release.authority() == authority
    assert await release.served() == BOTH

    # Helm 4 applies on the server, where the authority would be left over.
    option = re.search(r"`helm rollback RELEASE (\S+)`", PAGE)
    assert option is not None
    await release.helm(
        "rollback", "kind", "1", *([option[1]] if release.program == "helm4" else ())
    )
    assert await release.served() == ["v1alpha1"]
    assert release.reads > 20


async def test_another_certificate_is_trusted_at_once_and_the_operator_s_once_it_is_back(
    release: Release, tmp_path: Path
) -> None:
    await release.helm("install", "kind", PROJECT.chart)
    await release.authority(write=True)
    theirs = trustme.CA().cert_pem.bytes()
    brought = {"certificate": "secret", "secretName": "ours", "caBundle": theirs.decode()}
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"webhooks": brought}))

    # Helm 4 applies on the server, where the operator owns the authority.
    option = re.search(r"`helm upgrade (--\S+)`", PAGE)
    assert option is not None
    forced = [option[1]] if release.program == "helm4" else []
    await release.helm("upgrade", "kind", PROJECT.chart, f"--values={values}", *forced)
    assert await release.authority() == base64.b64encode(theirs).decode()

    await release.helm("upgrade", "kind", PROJECT.chart, "--reset-values")
    assert not await release.authority()
    own = await release.authority(write=True)
    await release.helm("upgrade", "kind", PROJECT.chart, "--set=commonLabels.a=b")
    assert await release.authority() == own
    await release.helm("uninstall", "kind")


async def test_without_an_operator_the_kind_is_left_with_its_stored_version(
    release: Release,
) -> None:
    await release.helm("install", "kind", CHART)
    await release.store()
    await release.helm("uninstall", "kind")
    with pytest.raises(RefusedError, match="conversion webhook"):
        await release.api.ask("GET", release.object("v1beta1"))

    patch = re.search(r"--type=json --patch='(.*?)'", PAGE, re.DOTALL)
    assert patch is not None
    await release.api.ask("PATCH", CRD, json.loads(patch[1]), "application/json-patch+json")

    assert await release.served() == ["v1alpha1"]
    await release.api.remove(f"/api/v1/namespaces/{release.namespace}")
    async with asyncio.timeout(120):
        while await release.api.find(f"/api/v1/namespaces/{release.namespace}"):
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("example", ["etcd", "flightticket", "memcached"])
def test_helm_installs_an_example(api: Cluster, example: str) -> None:
    """The API server asks the last two, so their charts have more than the first and ours."""
    plane, chart = api.plane, nested.ensure(load(CHECKOUT / "examples" / example)).chart
    where = ("--namespace", example, "--kubeconfig", plane.kubeconfig(ADMIN))
    made = [
        m for m in render(chart=chart, release=example, namespace=example) if m["kind"] != "Pod"
    ]

    helm("install", example, chart, "--create-namespace", *where)

    found = kubectl(plane, "get", "--output=name", "--filename=-", stdin=made)
    assert len(found.split()) == len(made)
    helm("uninstall", example, *where)
    kinds = [m for m in made if m["kind"] in ("CustomResourceDefinition", "ClusterRole")]
    kubectl(plane, "delete", "--ignore-not-found", "--filename=-", stdin=kinds)
