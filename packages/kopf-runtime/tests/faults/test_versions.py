"""A kind of three versions on a real API server, which asks the operator to convert."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.testing.calls import Proxy
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import ELECT, World
from kopf_runtime.declaring.kinds import Kind
from runtime import festivals

pytestmark = pytest.mark.api

NEWEST = festivals.controller.kind
ALPHA, BETA = NEWEST._replace(version="v1alpha1"), NEWEST._replace(version="v1beta1")
APPLY = "application/apply-patch+yaml"


class Festivals(Subject):
    """The operator of festivals.py, which stores v1alpha1 and serves v1."""

    program: tuple[str, ...] = (festivals.__file__,)
    manager = festivals.manager
    creates = Kind("", "v1", "events", "Event")

    def spec(self, text: str) -> Raw:
        return {"stages": [{"name": text}]}


SUBJECT = Festivals()


@pytest.fixture
async def flags(here: World, tmp_path: Path) -> AsyncIterator[tuple[str, ...]]:
    """Have the API server ask at an address that an operator with these flags answers at."""
    certificates, port = here.cluster.plane.certificates, free_port()
    for name, file in (("tls.crt", "apiserver.crt"), ("tls.key", "apiserver.key")):
        (tmp_path / name).write_bytes((certificates / file).read_bytes())
    client = {
        "url": f"https://127.0.0.1:{port}/convert",
        "caBundle": base64.b64encode((tmp_path / "tls.crt").read_bytes()).decode(),
    }
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    crd = here.subject.crd
    await here.cluster.patch(
        crd, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    )
    yield f"--webhook-bind-address=127.0.0.1:{port}", f"--webhook-cert-path={tmp_path}"
    await here.cluster.remove(here.subject.kind.path(here.namespace))
    await here.cluster.patch(crd, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})


@pytest.fixture
def cluster(here: World) -> Cluster:
    return here.cluster


def festival(kind: Kind, name: str, **spec: Any) -> Raw:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def until_converted(here: World) -> None:
    """Wait until the API server asks for conversions: it reads the CRD again after a change."""
    probe = festival(ALPHA, "probe", stageName="probe")
    async with here.within(60, "converted"):
        await here.cluster.ask("POST", ALPHA.path(here.namespace), probe)
        while True:
            try:
                found = await here.cluster.find(NEWEST.path(here.namespace, "probe"))
                if found and found["spec"].get("stages"):
                    break
            except RefusedError:
                pass
            await asyncio.sleep(0.1)
        await here.cluster.remove(ALPHA.path(here.namespace, "probe"))


async def test_each_version_is_read_written_and_watched(here: World, flags: Any) -> None:
    await here.start(*flags)
    await until_converted(here)
    stages = [{"name": "main", "seats": 9000}, {"name": "tent", "seats": 10}]
    made = festival(NEWEST, "large", stages=stages, hours={"opens": "9", "closes": "5"})
    await here.cluster.ask("POST", NEWEST.path(here.namespace), made)
    old = await here.cluster.ask("GET", ALPHA.path(here.namespace, "large"))
    assert old["spec"] == {"stageName": "main", "opensAt": "9"}
    watch = here.cluster.session.get(
        f"{here.cluster.plane.server}{NEWEST.path(here.namespace)}"
        f"?watch=1&resourceVersion={old['metadata']['resourceVersion']}"
    )

    await here.cluster.patch(ALPHA.path(here.namespace, "large"), {"spec": {"opensAt": "8"}})

    async with here.within(60, "an event"), watch as events:
        while (event := json.loads(await events.content.readline()))["object"]["spec"]["hours"][
            "opens"
        ] == "9":
            pass
    assert event["object"]["spec"] == {"stages": stages, "hours": {"opens": "8", "closes": "5"}}
    assert "annotations" not in event["object"]["metadata"]
    await here.wait_until_ready("large")
    for kind in (ALPHA, BETA):
        found = await here.cluster.ask("GET", kind.path(here.namespace, "large"))
        assert found["status"]["conditions"][0]["status"] == "True"


async def test_a_manifest_of_the_old_version_is_followed_by_one_of_the_new(
    here: World, flags: Any
) -> None:
    """Server-side apply converts an object from which it has taken what was applied before.

    What the new manifest leaves out keeps its value, where the other version has a default for it.
    """
    await here.start(*flags)
    await until_converted(here)

    async def apply(manifest: Raw, kind: Kind) -> Raw:
        path = kind.path(here.namespace, "one") + "?fieldManager=gitops"
        return await here.cluster.ask("PATCH", path, manifest, APPLY)

    await apply(festival(ALPHA, "one", stageName="main", opensAt="9"), ALPHA)
    made = await apply(festival(NEWEST, "one", stages=[{"name": "tent"}]), NEWEST)
    assert made["spec"] == {"stages": [{"name": "tent", "seats": 100}], "hours": {"opens": "9"}}


async def test_a_standby_converts_before_it_has_listed_anything(here: World, flags: Any) -> None:
    await here.start(*ELECT, "--webhook-bind-address=0")

    def hole(proxy: Proxy) -> None:
        proxy.arm(lambda call: call.lists and NEWEST.plural in call.path, _never, float("inf"))

    standby = await here.launch(*ELECT, *flags, harm=hole)
    await until_converted(here)
    assert "Ready; there are" not in standby.log.read_text()
    # Else its Service would not lead to it, and nobody could list anything.
    assert await standby.is_ready()


async def _never(*_: Any) -> None:
    await asyncio.sleep(600)
