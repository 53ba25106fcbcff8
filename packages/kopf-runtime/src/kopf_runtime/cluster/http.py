"""HTTP/1.1 on one connection, with one request at a time.

It is what the runtime needs of HTTP to talk to an API server, and no more: a client for everything
costs four times the processor time. What is not HTTP, cut or too long ends a request with an
`HttpError`, and its connection.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import httptools

#: Bytes of the head of an answer at most, and of a stream that nobody has read yet.
HEAD, UNREAD = 64 * 1024, 256 * 1024
#: A silent connection is probed after these seconds, and ends after so many probes in vain.
PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class HttpError(Exception):
    """There is no answer that can be used."""


class DisconnectedError(HttpError):
    """The server ended the connection before its answer was complete."""


class BadAnswerError(HttpError):
    """What the server sent is not HTTP, or the head of its answer is too long."""


class ConnectionFailedError(HttpError):
    """There is no connection to the server."""

    def __init__(self, where: str, cause: OSError) -> None:
        super().__init__(f"no connection to {where}: {_why(cause)}")


class UntrustedCertificateError(ConnectionFailedError):
    """The server's certificate is not trusted."""


class ConnectTimeoutError(HttpError):
    """There was no connection to the server in time."""


def _why(error: OSError) -> str:
    """Return why a connection failed; asyncio puts the address in the place of the reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message or error}"
    if error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)


class Answer(Protocol):
    """An answer: its head, and its body as long as the request lasts."""

    status: int
    reason: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case."""

    async def read(self, most: int | None = None) -> bytes | None:
        """Return the body; None if it has more than `most` bytes, and then read nothing more."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives."""


class Connection(asyncio.Protocol):
    """A connection, and the answer that is being received on it."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.open, self.since = False, 0.0
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._enough: Callable[[], object] = bool
        #: Called once the answer of a request that was given up has come, or never will.
        self._afterwards: Callable[[], None] | None = None
        self._asked, self._keeps = False, True
        self._prepare()
        self.complete = True

    def _prepare(self) -> None:
        self.status, self.reason, self._headers = 0, "", dict[bytes, bytes]()
        self.begun = self.complete = self._streams = self._to_the_end = False
        self._parts, self._unread, self._head = deque[bytes](), 0, 0
        self._error: HttpError | None = None

    # --- what asyncio calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.open = transport, True
        # A log or a watch may be silent for hours: only this tells that the server is gone.
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):  # it has just been reset, or is none
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in PROBES.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Parse what came; what nobody has asked for ends the connection."""
        if not self._asked or self._error:
            self.abort()
            return
        self._head += 0 if self.begun else len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BadAnswerError(f"it is not HTTP: {error}"))
        else:
            if not self.begun and self._head > HEAD:
                self._fail(BadAnswerError(f"its head has more than {HEAD} bytes"))
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """End the answer; only some are complete with the end of the connection."""
        self.open = False
        if self._asked and self._to_the_end and error is None:
            self.complete = True
        self._fail(DisconnectedError(f"the server ended the connection: {error or 'early'}"))

    # --- what httptools calls -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.complete:
            raise ValueError("it is answered twice")

    def on_status(self, reason: bytes) -> None:
        """Keep the reason of the status line, of which parts may arrive one by one."""
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Begin the answer, unless it only announces one (1xx)."""
        self.status = self._parser.get_status_code()
        self.begun = self.status >= 200
        bounded = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        self._to_the_end = self.begun and not bounded and self.status not in (204, 304)

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body; if nobody reads a stream, its server has to wait."""
        self._parts.append(data)
        self._unread += len(data)
        if self._streams and self._unread > UNREAD:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Finish the answer; after an announcement, wait for it."""
        if self.begun:
            self.complete, self._keeps = True, self._parser.should_keep_alive()
        else:
            self.status, self.reason, self._headers = 0, "", {}

    # --- a request ----------------------------------------------------------------------------

    @property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case; most are never looked at."""
        return {n.decode("latin-1"): v.decode("latin-1") for n, v in self._headers.items()}

    def send(self, data: bytes) -> None:
        """Send a request."""
        self._prepare()
        self._asked = True
        self._transport.write(data)

    async def answered(self) -> None:
        """Wait for the head of the answer."""
        await self._until(lambda: self.begun)
        if not self.begun and self._error:
            raise self._error

    async def read(self, most: int | None = None) -> bytes | None:
        """Return the body; None if it has more than `most` bytes, and then read nothing more."""
        limit = float("inf") if most is None else most
        await self._until(lambda: self.complete or self._unread > limit)
        if self._unread > limit:
            return None
        if not self.complete and self._error:
            raise self._error
        return b"".join(self._parts)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives."""
        self._streams = True
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._unread -= len(part)
                yield part
            if self.complete:
                return
            if self._error:
                raise self._error
            self._transport.resume_reading()
            await self._until(lambda: self._parts or self.complete)

    def finish(self, afterwards: Callable[[], None]) -> bool | None:
        """End the request; return whether the connection can take another one, None if later.

        In the last case, `afterwards` is called when the answer has come, or never will.
        """
        if self.open and self._asked and not self.begun and not self._error:
            self._afterwards = afterwards
            return None
        self._asked = False
        self._parts.clear()
        # An answer that comes before the whole request is sent leaves the rest in the buffer.
        sent = self.open and not self._transport.get_write_buffer_size()
        usable = sent and self.complete and self._keeps and not self._error
        if usable:
            self._transport.resume_reading()  # it is paused if nobody read the end of a stream
        return usable

    def abort(self) -> None:
        """End the connection at once."""
        if self.open:
            self.open = False
            self._transport.abort()

    def _fail(self, error: HttpError) -> None:
        self._keeps = False
        self._error = self._error or error
        self.abort()
        self._wake()

    async def _until(self, enough: Callable[[], object]) -> None:
        while not (enough() or self._error):
            self._enough, self._waiter = enough, asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._afterwards and (self.complete or self._error):
            afterwards, self._afterwards = self._afterwards, None
            afterwards()
        elif self._waiter and not self._waiter.done() and (self._error or self._enough()):
            self._waiter.set_result(None)
