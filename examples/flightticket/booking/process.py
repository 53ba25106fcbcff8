"""The booking service as a process of its own, and what a test tells and asks it."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

SERVER = Path(__file__).with_name("server.py")
TOKEN = "s3cr3t-t0k3n"  # noqa: S105


class BookingService:
    """A running service."""

    def __init__(self, folder: Path, port: int) -> None:
        self.tokens, self._database = folder / "tokens", folder / "bookings.sqlite"
        self.tokens.write_text(TOKEN)
        self._port, self._counter = port, ""
        self.url = f"http://127.0.0.1:{port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-SE", SERVER, "--host=127.0.0.1", f"--port={self._port}"),
            *("--counter-port=0", f"--database={self._database}", f"--tokens={self.tokens}"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        addresses = (await self._process.stdout.readline()).decode().split()
        assert addresses, "the booking service has ended"
        _, self._counter = addresses

    async def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def fail(self, *faults: dict[str, Any]) -> None:
        """Inject these faults from now on, and no others; requests that were held go on."""
        await self._ask("PUT", "faults", list(faults))

    async def cancel(self, key: str) -> None:
        """Cancel a booking at the counter."""
        await self._ask("DELETE", f"bookings/{key}")

    async def change(self, key: str, **wanted: Any) -> None:
        """Change a booking at the counter."""
        await self._ask("PUT", f"bookings/{key}", wanted)

    async def calls(self, key: str = "") -> list[str]:
        """Return the methods of the calls that came, for a booking or for all."""
        calls = await self._ask("GET", "calls")
        return [call["method"] for call in calls if key in ("", call["key"])]

    async def events(self, key: str = "") -> list[str]:
        """Return what happened to a booking, or to all."""
        events = await self._ask("GET", "events")
        return [event["event"] for event in events if key in ("", event["key"])]

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self._counter}/{path}", json=body) as answer,
        ):
            answer.raise_for_status()
            return await answer.json(content_type=None) if answer.status != 204 else None


@asynccontextmanager
async def booking_service(folder: Path) -> AsyncIterator[BookingService]:
    """Run the service while the block lasts, always on the same port, even if it is restarted.

    A socket that is bound, and does not listen, keeps everybody else off the port. The service may
    bind it, too, because both allow that by SO_REUSEADDR.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        service = BookingService(folder, reserved.getsockname()[1])
        await service.start()
        try:
            yield service
        finally:
            await service.kill()
