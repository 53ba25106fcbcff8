"""A slow API server makes the operator slower, never busier."""

import asyncio
from collections import Counter

from aiohttp import web

from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, ready, widget

OBJECTS, NAMESPACES, TIMEOUT, DELAY = 20, 5, 1.0, 1.1


class SlowServer(ApiServer):
    """Does at once what it is asked, and answers late."""

    def __init__(self) -> None:
        super().__init__(WIDGET)
        self.asked: Counter[str] = Counter()
        self.connections: set[object] = set()
        self.delay = 0.0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._answer(request)
        if "watch" not in request.query:
            self.connections.add(request.transport)
            self.asked[f"{request.method} {request.path}"] += 1
            await asyncio.sleep(self.delay)
        return answer


async def test_congestion_each_object_costs_as_many_requests_as_ever_but_for_one_timeout() -> None:
    keys = [(f"ns-{number % NAMESPACES}", f"w{number}") for number in range(OBJECTS)]
    async with SlowServer().running() as server:
        assert isinstance(server, SlowServer)
        async with operating(server, widgets.controller()) as operator:
            await until(lambda: operator.synced)
            operator.client._timeout, server.delay = TIMEOUT, DELAY
            for namespace, name in keys:
                server.put(WIDGET, widget(name, namespace))
            await until(
                lambda: all(ready(server.get(WIDGET, key)).get("status") == "True" for key in keys)
            )
            reconciles = operator.reconciles()

    # Of those that were under way when the first one timed out, none was given up.
    again = {what for what, asked in server.asked.items() if asked > 1 and "/events" not in what}
    assert len(again) <= 4, again
    assert sum(server.asked.values()) <= OBJECTS * 4 + 10, server.asked
    assert len(server.connections) <= OBJECTS + 10
    assert reconciles <= 3 * OBJECTS
