"""The few requests that the operator makes of the API server, on the session kopf watches with.

``handlers`` logs in by it, all that writes calls ``Api.request``, the sweep calls ``Api.pages``.
One session means one pool of connections and one place for credentials: tokens are read anew
when they rotate, and nothing is restarted. Knows nothing of Messages.
"""

import asyncio
import dataclasses
import importlib.util
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import kopf

from message_operator import __version__, metrics

logger = logging.getLogger(__name__)

MANAGER = "message-operator"
PAGE = 100  # objects a LIST page; client-go's 500 took 20 MB more at a start with 10,000 Messages
MERGE_PATCH = "application/merge-patch+json"
TOKEN_AGE = 60.0  # seconds; the kubelet rotates a token at 80% of its hour or more


class ApiError(Exception):
    """The API server refused a request, or gave no answer (status 0)."""

    def __init__(
        self, method: str, path: str, status: int, reason: str, message: str, after: float = 0.0
    ) -> None:
        super().__init__(f"{method} {path}: {status or 'no answer'} {reason}: {message}")
        #: The HTTP status, 0 without an answer.
        self.status = status
        #: The machine-readable reason of the Status object, such as ``AlreadyExists``.
        self.reason = reason
        #: What the server says to a person.
        self.message = message
        #: The seconds of its Retry-After header.
        self.after = after


def credentials() -> kopf.ConnectionInfo:
    """Find out how to reach the cluster: the service account's way, else the kubeconfig's.

    Where the Kubernetes client package is installed (on a developer's machine, never in the
    image), it reads the kubeconfig, for it knows the exec plugins of the clouds.
    Raises ``kopf.LoginError`` with what to do.
    """
    kopf_arguments: dict[str, Any] = {"settings": kopf.OperatorSettings(), "logger": logger}
    info = kopf.login_with_service_account(**kopf_arguments)
    if info is not None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        host = f"[{host}]" if ":" in host else host
        return dataclasses.replace(info, server=f"https://{host}:{port}")  # needs no DNS
    source = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        if importlib.util.find_spec("kubernetes"):
            info = kopf.login_via_client(**kopf_arguments)
        else:
            info = kopf.login_with_kubeconfig(**kopf_arguments)
    except Exception as error:
        raise kopf.LoginError(f"cannot use the kubeconfig {source}: {error}") from error
    if info is None or not info.server:
        raise kopf.LoginError(
            f"no cluster: this is no Pod, and there is no kubeconfig at {source}; "
            "make a cluster (make cluster) or set KUBECONFIG"
        )
    return info


class Bearer:
    """aiohttp middleware that puts the credentials on each request, and keeps them fresh.

    Within a cluster the token's file is read again each minute; anywhere, a 401 makes the
    credentials be found anew and the request be sent once more.
    """

    def __init__(self, info: kopf.ConnectionInfo) -> None:
        self._headers = info.as_http_headers()
        self._read = time.monotonic()
        self._rotates = info.token is not None

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send the request with the credentials."""
        if self._rotates and time.monotonic() - self._read > TOKEN_AGE:
            await self._refresh()
        sent = self._headers
        request.headers.update(sent)
        response = await handler(request)
        if response.status == 401:
            if sent is self._headers:
                await self._refresh()
            if self._headers != sent:
                response.release()
                request.headers.update(self._headers)
                response = await handler(request)
        return response

    async def _refresh(self) -> None:
        self._read = time.monotonic()
        try:
            info = await asyncio.to_thread(credentials)
        except Exception as error:  # a token's file may be away for the moment of its rotation
            logger.warning("The credentials could not be read anew: %s", error)
        else:
            self._headers = info.as_http_headers()


class Api:
    """Requests to the API server, each counted, bounded in time, and answered or refused."""

    def __init__(self, timeout: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None
        self._bearer: Bearer | None = None
        self._server = ""
        #: Tells at the last moment before each write whether it may be sent; an election's.
        self.may_write: Callable[[], bool] = lambda: True
        #: When the API server last answered, on the monotonic clock.
        self.answered = 0.0

    def login(
        self, info: kopf.ConnectionInfo, *observers: aiohttp.ClientMiddlewareType
    ) -> kopf.AiohttpSession:
        """Open the session, for this client and for kopf alike; kopf closes it.

        ``observers`` are middlewares for kopf's requests alone.
        """
        self._bearer = Bearer(info)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers={"User-Agent": f"{MANAGER}/{__version__}"},
            middlewares=(*observers, self._bearer),
            proxy=info.proxy_url,
        )
        self._server = info.server.rstrip("/")
        return kopf.AiohttpSession(
            server=info.server,
            aiohttp_session=self._session,
            default_namespace=info.default_namespace,
        )

    async def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content_type: str = "application/json",
        params: dict[str, str] | None = None,
        fenced: bool = True,
    ) -> dict[str, Any]:
        """Send one request and give the object that answers it; raises ``ApiError``.

        A write that may not be sent has the reason ``Fenced``; ``fenced=False`` sends it anyway.
        """
        if self._session is None or self._bearer is None:
            raise ApiError(method, path, 0, "NotConnected", "not logged in yet")
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        started = time.monotonic()
        code = 0
        try:
            async with self._session.request(
                method, self._server + path, data=data, params=params,
                headers={"Content-Type": content_type}, timeout=self._timeout,
                middlewares=(self._bearer, self._fence) if fenced else (self._bearer,),
            ) as response:  # fmt: skip
                payload = await response.read()
                code = response.status
                self.answered = time.monotonic()
                answer: dict[str, Any] = json.loads(payload) if payload else {}
                if code >= 400:
                    raise ApiError(
                        method, path, code,
                        answer.get("reason") or response.reason or "",
                        answer.get("message") or "",
                        _seconds(response.headers.get("Retry-After")),
                    )  # fmt: skip
                return answer
        except ValueError as error:  # no JSON: a proxy's page, or half an answer
            raise ApiError(method, path, code, "BadAnswer", str(error)) from error
        except (aiohttp.ClientError, TimeoutError, RuntimeError) as error:
            reason = type(error).__name__
            raise ApiError(method, path, 0, reason, str(error)) from error
        finally:
            metrics.API_REQUESTS.labels(method, str(code)).inc()
            metrics.API_TIME.labels(method).observe(time.monotonic() - started)

    async def _fence(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Stop a write that may not be sent: a process may have slept since it was decided on."""
        if request.method != "GET" and not self.may_write():
            raise ApiError(request.method, request.url.path, 0, "Fenced", "no leader any more")
        return await handler(request)

    async def pages(
        self, path: str, params: dict[str, str] | None = None
    ) -> AsyncIterator[tuple[list[dict[str, Any]], int]]:
        """LIST by pages; each is (objects, resource version of the whole list)."""
        query = {**(params or {}), "limit": str(PAGE)}
        while True:
            page = await self.request("GET", path, params=query)
            yield page.get("items") or [], int(page["metadata"]["resourceVersion"])
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following


def _seconds(header: str | None) -> float:
    """Read a Retry-After in seconds; its other form, a date, no API server sends."""
    return float(header) if header and header.isdigit() else 0.0
