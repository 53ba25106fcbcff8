"""Connections that take long to establish."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest


class SlowConnection:
    """A connection attempt: `begun` is set when it begins, and it succeeds once `end` is set."""

    def __init__(self) -> None:
        self.begun, self.end = asyncio.Event(), asyncio.Event()


@asynccontextmanager
async def connecting_slowly(url: str = "") -> AsyncIterator[SlowConnection]:
    """Delay new connections of this process during the block: those to a URL, or all."""
    loop, slow = asyncio.get_running_loop(), SlowConnection()
    connect = loop.sock_connect

    async def wait(sock: socket.socket, address: Any) -> None:
        if not url or url.endswith(f":{address[1]}"):
            slow.begun.set()
            await slow.end.wait()
        await connect(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "sock_connect", wait)
        yield slow
