"""Webhooks that the tests' API server asks: somebody else's, and the converters of operators.

The operators under test are killed and cut off, and the API server knows one address. So the
runtime's endpoint for conversion runs here, too.
"""

import asyncio
import base64
import json
import secrets
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_runtime.converting.versions import Versions
from kopf_runtime.endpoints.reviews import Reviews


class Conversions:
    """An endpoint for each kind of several versions, from when it is first asked for."""

    def __init__(self) -> None:
        self._handlers: dict[str, Any] = {}
        self._port = free_port()
        # In a thread, because each test has an event loop of its own.
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None

    def of(self, plane: ControlPlane, versions: Versions) -> dict[str, Any]:
        """Return the `conversion` of a CRD, by which the API server asks here."""
        if self._runner is None:
            self._start(plane)
        kind = str(versions.kind)
        self._handlers[kind] = Reviews([versions]).routes[0].handler
        authority = (plane.certificates / "apiserver.crt").read_bytes()
        client = {
            "url": f"https://127.0.0.1:{self._port}/{kind}",
            "caBundle": base64.b64encode(authority).decode(),
        }
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
        return {"strategy": "Webhook", "webhook": webhook}

    def _start(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        folder = plane.certificates
        tls.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
        application = web.Application()
        application.router.add_post("/{kind}", self._answer)
        self._runner = runner = web.AppRunner(application, access_log=None)

        async def start() -> None:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=tls).start()

        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(start(), self._loop).result(30)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer: web.StreamResponse = await self._handlers[request.match_info["kind"]](request)
        return answer

    def close(self) -> None:
        """Stop answering."""
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
            self._loop.call_soon_threadsafe(self._loop.stop)


_ROOT = "/apis/admissionregistration.k8s.io/v1"
_MARKER = "marker"
_CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"]}
#: The group and the plural of each kind that a webhook is asked for.
PODS = (("", "pods"),)

#: Returns a JSON patch to admit an object, or a text to refuse it.
Opinion = Callable[[Raw], Awaitable[list[Raw] | str]]


@dataclass
class Webhook:
    """A webhook for the objects of one namespace."""

    opinion: Opinion
    #: The requests that it received, in order; without any, the test tests nothing.
    asked: list[Raw] = field(default_factory=list)
    #: The number of requests that were answered, or given up by the API server.
    ended: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a review."""
        review = json.loads(await request.read())["request"]
        self.asked.append(review)
        try:
            opinion = await self.opinion(review)
        finally:
            self.ended += 1
        answer: dict[str, Any] = {"uid": review["uid"], "allowed": not isinstance(opinion, str)}
        if isinstance(opinion, str):
            answer["status"] = {"code": 403, "message": opinion}
        elif opinion:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = base64.b64encode(json.dumps(opinion).encode()).decode()
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        )


@asynccontextmanager
async def webhook(
    cluster: Cluster,
    namespace: str,
    opinion: Opinion,
    *,
    operations: tuple[str, ...] = ("CREATE",),
    kinds: Sequence[tuple[str, str]] = PODS,
) -> AsyncIterator[Webhook]:
    """Run a mutating webhook for a namespace's objects, by default Pods, during the block."""
    certificates = cluster.plane.certificates
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    hook = Webhook(opinion)
    application = web.Application(client_max_size=2**24)
    application.router.add_post("/", hook.handle)
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust, backlog=1024).start()
    async with registered(
        cluster,
        namespace,
        f"https://127.0.0.1:{runner.addresses[0][1]}/",
        operations,
        kinds,
    ):
        try:
            yield hook
            assert hook.asked, "the webhook was never asked: a test without it says nothing"
        finally:
            await runner.cleanup()


@asynccontextmanager
async def registered(
    cluster: Cluster,
    namespace: str,
    url: str,
    operations: tuple[str, ...],
    kinds: Sequence[tuple[str, str]],
) -> AsyncIterator[None]:
    """Let the API server call a URL for a namespace's objects during the block."""
    name = f"{namespace}-{secrets.token_hex(3)}"
    bundle = (cluster.plane.certificates / "apiserver.crt").read_bytes()
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": list(operations),
            "resources": [plural],
        }
        for group, plural in kinds
    ]
    shared = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
    }
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(bundle).decode()},
        "rules": rules,
        **shared,
    }
    # Nobody listens there: once ConfigMaps are refused, the API server has loaded the webhooks.
    marker = {
        "name": f"marker.{name}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [{**rules[0], "operations": ["CREATE"], **_CONFIG_MAPS}],
        "matchConditions": [
            {"name": "marker", "expression": f"object.metadata.name == '{_MARKER}'"}
        ],
        **shared,
    }
    path = f"{_ROOT}/mutatingwebhookconfigurations"
    await cluster.ask("POST", path, {"metadata": {"name": name}, "webhooks": [hook, marker]})
    try:
        await _until_asked(cluster, namespace)
        yield
    finally:
        await cluster.remove(f"{path}/{name}")


async def _until_asked(cluster: Cluster, namespace: str) -> None:
    """Wait until the API server has loaded the webhook and its marker, which it does together."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.ask("POST", path, {"metadata": {"name": _MARKER}})
            except RefusedError as error:
                if "marker." not in error.message:
                    raise
                return
            await asyncio.sleep(0.05)
