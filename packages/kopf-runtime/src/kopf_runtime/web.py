"""Serves /metrics, /healthz and /readyz.

`manager` starts it and passes it the checks for healthy and ready. With a certificate, /metrics
uses HTTPS and requires a right; without one it is plain HTTP and open to all who can reach it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from ssl import SSLContext

from aiohttp import web
from prometheus_client import generate_latest

from kopf_runtime.certificate import Certificate
from kopf_runtime.client import Client
from kopf_runtime.listeners import MOST, listen
from kopf_runtime.metrics import Metrics
from kopf_runtime.parsers import Address
from kopf_runtime.scrapers import Scrapers
from kopf_runtime.settings import Settings

#: Returns what is wrong, or an empty text.
Check = Callable[[], str]
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _probe(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        trouble = check()
        return web.Response(text=trouble or "ok", status=503 if trouble else 200)

    return answer


class Server:
    """The HTTP endpoints, on one or two addresses."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._scrapers: Scrapers | None = None
        self._runners: list[web.AppRunner] = []

    async def start(self, settings: Settings, client: Client, healthy: Check, ready: Check) -> None:
        """Start serving; raise `CertificateError`, or `OSError` if an address cannot be used."""
        tls = None
        if settings.metrics_bind_address and settings.metrics_cert_path:
            tls = Certificate(Path(settings.metrics_cert_path)).context
            self._scrapers = Scrapers(client)
        await self._serve(settings.metrics_bind_address, [web.get("/metrics", self._answer)], tls)
        probes = [web.get("/healthz", _probe(healthy)), web.get("/readyz", _probe(ready))]
        await self._serve(settings.health_probe_bind_address, probes)

    async def _answer(self, request: web.Request) -> web.Response:
        if self._scrapers is not None:
            judged = await self._scrapers.judge(request.headers.get("Authorization", ""))
            if judged.status != 200:
                headers = {"WWW-Authenticate": "Bearer"} if judged.status == 401 else {}
                return web.Response(status=judged.status, text=judged.text, headers=headers)
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _serve(
        self, address: Address | None, routes: list[web.RouteDef], tls: SSLContext | None = None
    ) -> None:
        if address is None:
            return
        application = web.Application()
        application.add_routes(routes)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        self._runners.append(runner)
        listener = listen(*address)
        await web.SockSite(runner, listener, ssl_context=tls, backlog=MOST).start()

    async def stop(self) -> None:
        """Stop serving."""
        for runner in self._runners:
            await runner.cleanup()
