"""Serves /metrics, /healthz and /readyz.

`manager` starts it and tells it what is healthy and what is ready.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import generate_latest

from kopf_runtime.metrics import Metrics

#: Returns what is wrong, an empty text if nothing is.
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
        self._runners: list[web.AppRunner] = []

    async def start(
        self,
        metrics_address: tuple[str, int] | None,
        health_address: tuple[str, int] | None,
        healthy: Check,
        ready: Check,
    ) -> None:
        """Serve; raise `OSError` if an address cannot be had."""
        await self._serve(metrics_address, [web.get("/metrics", self._answer)])
        await self._serve(
            health_address,
            [web.get("/healthz", _probe(healthy)), web.get("/readyz", _probe(ready))],
        )

    async def _answer(self, _: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _serve(self, address: tuple[str, int] | None, routes: list[web.RouteDef]) -> None:
        if address is None:
            return
        application = web.Application()
        application.add_routes(routes)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        self._runners.append(runner)
        host, port = address
        await web.TCPSite(runner, host or None, port).start()

    async def stop(self) -> None:
        """Close the addresses."""
        for runner in self._runners:
            await runner.cleanup()
