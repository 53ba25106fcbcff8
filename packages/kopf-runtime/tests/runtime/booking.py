"""A booking service in this process: what is outside the cluster for a Ticket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

#: Answers a request in the service's place; None leaves it to the service.
Mood = Callable[[web.Request], Awaitable[web.Response | None]]


async def well(_: web.Request) -> None:
    """Leave all to the service."""


async def hang(_: web.Request) -> None:
    """Answer never."""
    await asyncio.Event().wait()


def refuse(status: int, text: str = "", **headers: str) -> Mood:
    """Return what answers with this status."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=headers)

    return answer


class BookingService:
    """Keeps one booking for each uid, however often it is asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.mood: Mood = well
        self.calls: list[str] = []
        self.bookings: dict[str, dict[str, Any]] = {}
        #: Called for each request.
        self.asked: Callable[[str], object] = lambda _: None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["BookingService"]:
        """Serve while the block lasts."""
        application = web.Application()
        application.router.add_route("*", "/bookings/{uid}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls.append(request.method)
        self.asked(request.method)
        if (given := await self.mood(request)) is not None:
            return given
        uid = request.match_info["uid"]
        if request.method == "DELETE":
            return web.Response(status=204 if self.bookings.pop(uid, None) else 404)
        booking = self.bookings.setdefault(uid, {"number": f"B{len(self.bookings) + 1}"})
        booking["wanted"] = await request.json()
        return web.json_response({"number": booking["number"]})
