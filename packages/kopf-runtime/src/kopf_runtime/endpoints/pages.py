"""Serves pages to kubelets and scrapers: it answers GET over HTTP/1.1.

`web` starts it. Webhooks have aiohttp's server, which takes long to import. A request is small, and
each connection has one at a time, until its answer is read; who sends anything else is answered
once, and not again.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from socket import socket
from typing import cast

import httptools
import msgspec

logger = logging.getLogger(__name__)

#: Bytes of a request.
MAX_REQUEST = 16 * 1024
#: Seconds until a connection that sends no request or does not read its answer is closed.
PATIENCE = 75.0
#: Seconds for which a client that still sends may read its answer: an end would discard it.
LINGER = 1.0


class Page(msgspec.Struct, frozen=True):
    """An answer; a text, unless a header says otherwise."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}


#: Returns the page of a request, given its Authorization header and the client's address.
Answer = Callable[[str, str], Awaitable[Page]]


class Pages:
    """The pages of one listener, by their paths."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.open = set[_Connection]()

    async def start(self, listener: socket, tls: ssl.SSLContext | None, backlog: int) -> None:
        """Start serving; so many connections may wait to be accepted."""
        #: The address that it listens on.
        self.address = listener.getsockname()[:2]
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), sock=listener, ssl=tls, backlog=backlog
        )

    def stop(self) -> None:
        """Stop serving, and close all connections."""
        self._server.close()
        for connection in [*self.open]:
            connection.abort()


class _Connection(asyncio.Protocol):
    """A connection of a client; httptools' parser calls the methods `on_…`."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._parser = httptools.HttpRequestParser(self)
        self._answering: asyncio.Task[None] | None = None
        self._refused = False
        self._sent = asyncio.Event()
        self._sent.set()

    def _expect(self) -> None:
        """Wait for a request."""
        self._url, self._authorization, self._left = b"", "", MAX_REQUEST
        self._complete = False
        self._wait(PATIENCE)

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(1, 0)  # with 0, TLS would wait for an empty buffer
        self._pages.open.add(self)
        self._expect()

    def connection_lost(self, _: Exception | None) -> None:
        """End what is done for the client."""
        self._pages.open.discard(self)
        self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def pause_writing(self) -> None:
        """Wait until the client has read its answer."""
        self._sent.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._sent.set()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read a request."""
        if self._refused or self._answering is not None:
            self._keeps = False
            return
        self._left -= len(data)
        try:
            if self._left < 0:
                raise ValueError(f"a request has at most {MAX_REQUEST} bytes")
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keeps = False
        except (httptools.HttpParserError, ValueError) as error:
            self._keeps = False
            if self._answering is None:  # else it follows a request
                self._refuse(error)

    def eof_received(self) -> bool:
        """Close the connection once the request is answered; TLS cannot wait for that."""
        self._keeps = False
        return self._answering is not None and self._transport.can_write_eof()

    def on_message_begin(self) -> None:
        """Read no request that is sent before the former one is answered."""
        self._keeps = self._answering is None

    def on_url(self, url: bytes) -> None:
        """Keep a part of the path."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the header that matters."""
        if name.lower() == b"authorization":
            self._authorization = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Answer: a client may wait for that before it sends a body."""
        if self._answering is not None:
            return
        method = self._parser.get_method()
        current = self._parser.get_http_version() == "1.1"
        self._keeps = current and self._parser.should_keep_alive()
        self._timer.cancel()
        answering = self._answer(method, self._url, self._authorization)
        self._answering = asyncio.get_running_loop().create_task(answering)

    def on_message_complete(self) -> None:
        """Note that nothing of the request is missing."""
        self._complete = True

    async def _answer(self, method: bytes, url: bytes, authorization: str) -> None:
        self._keeps = self._keeps and self._complete
        path = ""
        with contextlib.suppress(httptools.HttpParserInvalidURLError):
            path = (httptools.parse_url(url).path or b"").decode("latin-1")
        answer = self._pages.answers.get(path)
        host = (self._transport.get_extra_info("peername") or ("",))[0]
        if answer is None:
            page = Page(b"Not found", 404)
        elif method not in (b"GET", b"HEAD"):
            page = Page(b"Use GET", 405, {"Allow": "GET, HEAD"})
        else:
            try:
                page = await answer(authorization, host)
            except Exception:
                logger.exception("%s cannot be served", path)
                page = Page(b"This operator failed; its log says why", 500)
        self._wait(PATIENCE)
        self._send(page, head=method == b"HEAD")
        await self._sent.wait()
        self._timer.cancel()
        self._answering = None
        if not self._complete:
            self._linger()
            return
        self._expect()
        if not self._keeps:
            self._transport.close()

    def _refuse(self, error: Exception) -> None:
        """Say why a request is not one."""
        self._timer.cancel()
        self._send(Page(f"This is no request: {error}".encode(), 400))
        self._linger()

    def _linger(self) -> None:
        """Close the connection after a while in which the client may read its answer."""
        self._refused = True
        self._wait(LINGER)

    def _send(self, page: Page, *, head: bool = False) -> None:
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(page.body)),
            "Date": formatdate(usegmt=True),
            **page.headers,
            "Connection": "keep-alive" if self._keeps else "close",
        }
        lines = [f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        top = "\r\n".join((*lines, "", "")).encode("latin-1")
        self._transport.write(top if head else top + page.body)
