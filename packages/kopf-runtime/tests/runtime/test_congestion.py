"""A slow API server makes the operator slower, never busier."""

import asyncio
from collections import Counter

from aiohttp import web

from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, ready, widget

OBJECTS, NAMESPACES, TIMEOUT, DELAY = 20, 5, 0.2, 0.8


class SlowServer(ApiServer):
    """Does at once what it is asked, and answers late."""

    def __init__(self) -> None:
        super().__init__(WIDGET)
        self.asked: Counter[str] = Counter()
        self.connections: set[object] = set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._answer(request)
        if "watch" not in request.query:
            self.connections.add(request.transport)
            self.asked[f"{request.method} {request.path}"] += 1
            await asyncio.sleep(DELAY)
        return answer


async def test_congestion_each_object_costs_as_many_requests_as_ever_but_one_timeout() -> None:
    keys = [(f"ns-{number % NAMESPACES}", f"w{number}") for number in range(OBJECTS)]
    async with SlowServer().running() as server:
        assert isinstance(server, SlowServer)
        async with operating(server, widgets.controller()) as operator:
            operator.client._timeout = TIMEOUT
            for namespace, name in keys:
                server.put(WIDGET, widget(name, namespace))
            await until(
                lambda: all(ready(server.get(WIDGET, key)).get("status") == "True" for key in keys)
            )
            results = ("success", "requeue_after", "requeue", "error")
            reconciles = sum(
                operator.metric(
                    "controller_runtime_reconcile_total", controller="widgets", result=result
                )
                for result in results
            )

    # Of the requests that were under way when the first one timed out, each is sent once more.
    assert all(asked <= 3 for asked in server.asked.values()), server.asked
    assert sum(server.asked.values()) <= OBJECTS * (4 + 2) + 10
    assert len(server.connections) <= 3 * OBJECTS
    assert reconciles <= 4 * OBJECTS
