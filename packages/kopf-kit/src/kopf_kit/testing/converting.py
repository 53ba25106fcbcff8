"""Converts objects between the versions of a kind when the tests' API server asks.

The operators under test are killed and cut off, and the API server knows one address. So the
runtime's endpoint runs here, too, with the operators' converters.
"""

import asyncio
import base64
import ssl
import threading
from typing import Any

from aiohttp import web

from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.process import free_port
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
