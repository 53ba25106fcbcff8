"""Serves /metrics, /healthz and /readyz, and the webhooks.

`manager` starts it and passes it the checks for healthy and ready. With a certificate, /metrics
uses HTTPS and requires a right; without one it is plain HTTP and open to all who can reach it.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.parsers import Address
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.endpoints.pages import Answer, Page, Pages
from kopf_runtime.endpoints.scrapers import Scrapers

if TYPE_CHECKING:  # only webhooks need it
    from aiohttp import web

logger = logging.getLogger(__name__)

#: Open connections per socket; as many again may wait to be accepted.
MAX_CONNECTIONS = 32
#: The same for webhooks: an API server opens one for each review that it waits for.
MAX_REVIEWS = 128
#: Seconds for which a connection stays open between two reviews: an API server closes it before.
_KEEP_ALIVE = 600.0
#: Seconds at the end in which each review that is answered closes its connection. HTTP/1.1 has no
#: other way to say that it must not be used again, and a review on one that has just been closed
#: fails the request of a user.
_LAST_REVIEWS = 1.0
#: Returns what is wrong, or an empty text.
Check = Callable[[], str]
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Listener(socket.socket):
    """Accepts connections, and closes one when there are too many.

    A connection takes memory before it sends anything: 300 KiB for TLS. The address that has the
    most connections loses its oldest one, so scrapes and probes get through a flood.
    """

    def __init__(self, fileno: int, most: int) -> None:
        super().__init__(fileno=fileno)
        self._most = most
        self._accepted: list[tuple[weakref.ref[socket.socket], str]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; close another one if there are too many."""
        connection, address = super().accept()
        accepted = [(sock, host) for reference, host in self._accepted if (sock := reference())]
        alive = [(sock, host) for sock, host in accepted if sock.fileno() >= 0]
        if len(alive) >= self._most:
            most = Counter(host for _, host in alive).most_common(1)[0][0]
            oldest = next(entry for entry in alive if entry[1] == most)
            alive.remove(oldest)
            with contextlib.suppress(OSError):  # it is closed already
                oldest[0].shutdown(socket.SHUT_RDWR)
        alive.append((connection, address[0]))
        self._accepted = [(weakref.ref(sock), host) for sock, host in alive]
        return connection, address


def listen(host: str, port: int, most: int = MAX_CONNECTIONS) -> Listener:
    """Listen on an address, or on all if the host is empty; raise `OSError`."""
    both = not host and socket.has_dualstack_ipv6()
    server = socket.create_server(
        (host, port),
        family=socket.AF_INET6 if both or ":" in host else socket.AF_INET,
        dualstack_ipv6=both,
        backlog=most,
    )
    return Listener(server.detach(), most)


class CertificateError(Exception):
    """The certificate cannot be used; the message says which one, and what to do."""


def renewing(flag: str, folder: Path) -> ssl.SSLContext:
    """Return a TLS context whose handshakes use the newest `tls.crt` and `tls.key` of a folder.

    A renewal (by cert-manager, through the kubelet) swaps a symbolic link, so both files change at
    the same moment. Files that cannot be used change nothing; raise `CertificateError` if the first
    ones cannot.
    """
    certificate, key = folder / "tls.crt", folder / "tls.key"

    def look() -> list[tuple[int, int, int]]:
        stats = [file.stat() for file in (certificate, key) if file.exists()]
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats]

    def load() -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Without a password, OpenSSL would ask the terminal for the one of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
        return context

    last = look()
    try:
        newest = first = load()
    except OSError as error:  # an SSLError is one, too
        raise CertificateError(
            f"{flag}: {folder} has no usable tls.crt and tls.key ({error}): put a certificate and "
            "its key there, both as PEM"
        ) from error

    def choose(connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        nonlocal last, newest
        if (files := look()) != last:
            last = files  # unusable files are tried and logged only once
            try:
                newest = load()
                logger.info("Serving with the new certificate %s", certificate)
            except OSError as error:
                logger.warning("Still serving with the former one of %s: %s", certificate, error)
        connection.context = newest

    first.sni_callback = choose
    return first


def _probe(check: Check) -> Answer:
    async def answer(_: str, __: str) -> Page:
        trouble = check()
        return Page((trouble or "ok").encode(), 503 if trouble else 200)

    return answer


class Server:
    """The HTTP endpoints, each on its own address."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._scrapers: Scrapers | None = None
        self._pages: list[Pages] = []
        self._reviews: web.AppRunner | None = None
        self._ending = False

    async def start(
        self,
        settings: Settings,
        client: Client,
        healthy: Check,
        ready: Check,
        webhooks: "Sequence[web.RouteDef]" = (),
        own: ssl.SSLContext | None = None,
    ) -> None:
        """Start serving, the webhooks with our own certificate if there is one.

        Raise `CertificateError`, or `OSError` if an address cannot be used.
        """
        tls = None
        if settings.metrics_bind_address and settings.metrics_cert_path:
            tls = renewing("--metrics-cert-path", Path(settings.metrics_cert_path))
            self._scrapers = Scrapers(client)
        await self._serve(settings.metrics_bind_address, {"/metrics": self._answer}, tls)
        probes = {"/healthz": _probe(healthy), "/readyz": _probe(ready)}
        await self._serve(settings.health_probe_bind_address, probes)
        if settings.webhook_bind_address and webhooks:
            if not settings.webhook_cert_path and own is None:
                raise CertificateError(
                    "the API server asks webhooks over HTTPS alone: name a Secret with "
                    "--webhook-secret, or a folder with tls.crt and tls.key with "
                    "--webhook-cert-path, or set --webhook-bind-address=0"
                )
            tls = own or renewing("--webhook-cert-path", Path(settings.webhook_cert_path))
            await self._review(settings.webhook_bind_address, webhooks, tls)

    async def _answer(self, authorization: str, address: str) -> Page:
        if self._scrapers is not None:
            judged = await self._scrapers.judge(authorization, address)
            if judged.status != 200:
                headers = {"WWW-Authenticate": "Bearer"} if judged.status == 401 else {}
                return Page(judged.text.encode(), judged.status, headers)
        return Page(await self._metrics.text(), headers={"Content-Type": METRICS_TYPE})

    async def _serve(
        self,
        address: Address | None,
        answers: Mapping[str, Answer],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if address is not None:
            pages = Pages(answers)
            await pages.start(listen(*address), tls, MAX_CONNECTIONS)
            self._pages.append(pages)

    async def _review(
        self, address: Address, routes: "Sequence[web.RouteDef]", tls: ssl.SSLContext
    ) -> None:
        from aiohttp import web

        application = web.Application()
        application.add_routes(routes)
        application.on_response_prepare.append(self._close_at_end)
        self._reviews = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=0.5,
            keepalive_timeout=_KEEP_ALIVE,
            handler_cancellation=True,  # who asks no more holds no room
        )
        await self._reviews.setup()
        listener = listen(*address, MAX_REVIEWS)
        await web.SockSite(self._reviews, listener, ssl_context=tls, backlog=MAX_REVIEWS).start()

    async def _close_at_end(self, _: "web.Request", response: "web.StreamResponse") -> None:
        if self._ending:
            response.headers["Connection"] = "close"
            response.force_close()

    async def stop(self) -> None:
        """Answer the last reviews, then stop serving and close all connections."""
        self._ending = True
        if self._reviews is not None:
            await asyncio.sleep(_LAST_REVIEWS)
            server = self._reviews.server
            connections = server.connections if server is not None else ()
            left = [connection.transport for connection in connections if connection.transport]
            await self._reviews.cleanup()
            for transport in left:
                # TLS waits for a goodbye of the other side; asyncio may raise when the process
                # ends before that.
                transport.abort()
        for pages in self._pages:
            pages.stop()
        await asyncio.sleep(0)
