"""The connections to one server, which requests share.

A redirect is an answer like any other: who follows it shows the token to somebody else
(CVE-2022-3172). A request that is given up before its answer begins leaves the connection open for
a while: to read a late answer costs less than another TLS handshake.
"""

import asyncio
import functools
import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlsplit

from kopf_runtime.cluster import proxies
from kopf_runtime.cluster.http import (
    Answer,
    Connection,
    ConnectionFailedError,
    ConnectTimeoutError,
    DisconnectedError,
    UntrustedCertificateError,
)

#: Connections to a server at most; who needs another one waits for its turn.
CONNECTIONS = 100
#: Seconds for which a connection without a request is kept, and one whose request was given up.
IDLE, LATE = 60.0, 65.0
#: Seconds until the next address of a host is tried beside the first.
_NEXT_ADDRESS = 0.25
#: What a request may consist of: anything else could begin another line, or another request.
_LINE, _TARGET = re.compile(r"[\t !-~\x80-\xff]*"), re.compile(r"/[!-~]*")


class Pool:
    """The connections to one server; call `close` at the end.

    The server is a URL, with a path if its API begins there. `proxy` is the URL of an HTTP proxy;
    without one, the environment may name one.
    """

    def __init__(self, server: str, proxy: str | None = None) -> None:
        self._server = urlsplit(server)
        named = proxy or proxies.of_environment(self._server)
        self._proxy = urlsplit(named) if named else None
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._late: dict[Connection, asyncio.TimerHandle] = {}
        self._connecting = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def close(self) -> None:
        """End all connections."""
        self._closed = True
        for timer in (self._sweep, *self._late.values()):
            if timer is not None:
                timer.cancel()
        for connection in list(self._all):
            self._drop(connection)
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_exception(RuntimeError("the session is closed"))
        await asyncio.sleep(0)  # asyncio ends them now

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        tls: ssl.SSLContext | None,
        check: Callable[[], None],
        seconds: float,
    ) -> Answer:
        """Send a request, and return its answer once the head is there; `release` it in the end.

        `check` is called just before the request is sent, and raises what forbids it. `seconds` is
        the time to connect. Raise `HttpError`, or `ValueError` for what is no request.

        A server may end a connection just when it gets the next request: a read is sent again.
        """
        data = self._encoded(method, target, headers, body)
        tls = tls if self._server.scheme == "https" else None
        while True:
            connection, used = None, False
            try:
                connection, used = await self._connection(tls, seconds)
                check()
                connection.send(data)
                await connection.answered()
                return connection
            except BaseException as error:
                if connection is not None:
                    self.release(connection)
                if not (method == "GET" and used and isinstance(error, DisconnectedError)):
                    raise

    def _encoded(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        if not _TARGET.fullmatch(target):
            raise ValueError(f"{target!r} is not a path of a request")
        path = self._server.path.rstrip("/") + target
        lines = _lines(tuple(headers.items()))
        if self._proxy and self._server.scheme == "http":
            path = f"http://{self._server.netloc}{path}"
            lines += proxies.authorization(self._proxy)
        if body is not None or method not in ("GET", "DELETE"):
            lines += f"Content-Length: {len(body or b'')}\r\n"
        host = self._server.netloc.rpartition("@")[2]
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"
        return head.encode("latin-1") + (body or b"")

    # --- connections --------------------------------------------------------------------------

    async def _connection(
        self, tls: ssl.SSLContext | None, seconds: float
    ) -> tuple[Connection, bool]:
        """Return a connection, and whether it has had a request before."""
        while True:
            if self._closed:
                raise RuntimeError("the session is closed")
            while self._idle:
                connection = self._idle.pop()
                if connection.open and connection.tls is tls:
                    return connection, True
                self._drop(connection)
            if len(self._all) + self._connecting < CONNECTIONS:
                break
            await self._turn()
        self._connecting += 1
        try:
            connection = await self._connect(tls, seconds)
        except BaseException:
            self._connecting -= 1
            self._next_turn()
            raise
        self._connecting -= 1
        self._all.add(connection)
        return connection, False

    async def _connect(self, tls: ssl.SSLContext | None, seconds: float) -> Connection:
        loop, connection = asyncio.get_running_loop(), Connection(tls)
        host, port = proxies.address(self._server)
        peer, peer_port = proxies.address(self._proxy or self._server)
        where = f"{peer}:{peer_port}"
        try:
            async with asyncio.timeout(seconds):
                if self._proxy and self._server.scheme == "https":
                    assert tls is not None
                    await proxies.tunnel(self._proxy, host, port, tls, connection)
                else:
                    tls = proxies.trust(self._proxy) if self._proxy else tls
                    await loop.create_connection(
                        lambda: connection,
                        peer,
                        peer_port,
                        ssl=tls,
                        server_hostname=peer if tls else None,
                        happy_eyeballs_delay=_NEXT_ADDRESS,
                    )
        except TimeoutError as error:
            raise ConnectTimeoutError(f"no connection to {where} in time") from error
        except ssl.SSLCertVerificationError as error:
            raise UntrustedCertificateError(where, error) from error
        except OSError as error:
            raise ConnectionFailedError(where, error) from error
        return connection

    def release(self, answer: Answer) -> None:
        """End a request: keep its connection for the next one or for a late answer, or end it."""
        connection = cast("Connection", answer)
        usable = connection.finish(functools.partial(self._came_late, connection))
        if usable is None and len(self._late) < CONNECTIONS // 2 and not self._closed:
            loop = asyncio.get_running_loop()
            self._late[connection] = loop.call_later(LATE, self._drop, connection)
        elif usable and not self._closed:
            connection.since = time.monotonic()
            self._idle.append(connection)
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(IDLE, self._sweep_idle)
            self._next_turn()
        else:
            self._drop(connection)

    def _came_late(self, connection: Connection) -> None:
        if timer := self._late.pop(connection, None):
            timer.cancel()
            self.release(connection)

    def _drop(self, connection: Connection) -> None:
        if timer := self._late.pop(connection, None):
            timer.cancel()
        self._all.discard(connection)
        connection.abort()
        self._next_turn()

    def _sweep_idle(self) -> None:
        """End the connections that nobody has used for long."""
        oldest = time.monotonic() - IDLE
        for connection in [each for each in self._idle if each.since <= oldest]:
            self._idle.remove(connection)
            self._drop(connection)
        self._sweep = None
        if self._idle:
            seconds = self._idle[0].since - oldest
            self._sweep = asyncio.get_running_loop().call_later(seconds, self._sweep_idle)

    async def _turn(self) -> None:
        """Wait until there may be a connection."""
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._next_turn()  # it was ours, and we do not take it
            raise

    def _next_turn(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return


@functools.lru_cache(maxsize=16)
def _lines(headers: tuple[tuple[str, str], ...]) -> str:
    for name, value in headers:
        if not _LINE.fullmatch(value):
            raise ValueError(f"the header {name} has a character that ends its line")
    return "".join(f"{name}: {value}\r\n" for name, value in headers)
