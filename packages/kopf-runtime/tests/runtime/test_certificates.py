"""When a replica may be asked: once the API server was told to trust its certificate.

tests/faults/test_admission.py has a real API server, and rotates the certificate.
"""

import asyncio
import base64
import dataclasses
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.kinds import VALIDATING_WEBHOOK_CONFIGURATION
from kopf_runtime.endpoints import certificates
from kopf_runtime.endpoints.certificates import Certificates
from runtime import festivals
from runtime.support.waiting import until

KIND = festivals.controller.kind
SETTINGS = dataclasses.replace(
    kr.Settings(),
    own_namespace="ours",
    webhook_secret="tls",
    webhook_service="hooks",
    webhook_configuration="ours.festivals",
)
CONFIGURATION = VALIDATING_WEBHOOK_CONFIGURATION.path(name="ours.festivals")
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{KIND}"


class Server:
    """An API server with some objects, of which some may not be read."""

    manager = "festival-operator"

    def __init__(self, **objects: Any) -> None:
        self.objects: dict[str, Any] = {}
        self.forbidden: set[str] = set()
        self.patched: list[tuple[str, Any]] = []

    def now(self) -> float:
        return time.time()

    async def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if path in self.forbidden:
            raise ApiError(method, path, 403, "Forbidden", "no right")
        if method == "PATCH" and "/secrets/" in path:
            self.objects[path] = {"metadata": {"resourceVersion": "1"}, "data": body["data"]}
        elif method == "PATCH":
            self.patched.append((path, body))
        if path not in self.objects:
            raise ApiError(method, path, 404, "NotFound", "it is not there")
        found: dict[str, Any] = self.objects[path]
        return found


def asking(service: str) -> dict[str, Any]:
    """Return whom the API server asks."""
    return {"clientConfig": {"service": {"namespace": "ours", "name": service}}}


def converting(service: str) -> dict[str, Any]:
    spec = {"conversion": {"webhook": asking(service)}}
    return {"metadata": {"resourceVersion": "1"}, "spec": spec}


@asynccontextmanager
async def running(server: Server, settings: kr.Settings = SETTINGS) -> AsyncIterator[Certificates]:
    webhooks = [webhook for webhook in festivals.manager.webhooks if webhook.kind == "validating"]
    found = Certificates(server, settings, webhooks, [KIND])  # type: ignore[arg-type]
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(certificates, "LOOK", 0.02)
    one = Server()
    one.objects[CRD] = converting("hooks")
    names = [each.name for each in festivals.manager.webhooks if each.kind == "validating"]
    webhooks = [{"name": name, **asking("hooks")} for name in names]
    one.objects[CONFIGURATION] = {"metadata": {"resourceVersion": "1"}, "webhooks": webhooks}
    return one


async def test_it_is_ready_once_all_that_asks_it_was_told(server: Server) -> None:
    configuration = server.objects.pop(CONFIGURATION)  # Helm installs it last
    async with running(server) as one:
        await until(lambda: "has no webhook of ours yet" in one.untrusted)
        server.objects[CONFIGURATION] = configuration
        await until(lambda: not one.untrusted)
    bundle = dict(server.patched)[CONFIGURATION]["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE-----")


async def test_what_asks_another_release_is_left_alone(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.objects[CRD] = converting("of-another-release")
    with caplog.at_level(logging.WARNING):
        async with running(server) as one:
            await until(lambda: not one.untrusted)
    assert CRD not in dict(server.patched)
    assert f"{KIND} is converted by somebody else" in caplog.text


async def test_without_a_right_to_the_crd_it_is_ready_where_namespaces_are_selected(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.forbidden.add(CRD)
    selected = dataclasses.replace(SETTINGS, namespaces=("team-a",))
    with caplog.at_level(logging.WARNING):
        async with running(server, selected) as one:
            await until(lambda: not one.untrusted)
    assert "they write ca.crt of the Secret tls into its" in caplog.text

    async with running(server) as one:  # it should have that right, and may get it
        await until(lambda: "Forbidden: no right" in caplog.text)
        assert one.untrusted
        server.forbidden.clear()
        await until(lambda: not one.untrusted)
