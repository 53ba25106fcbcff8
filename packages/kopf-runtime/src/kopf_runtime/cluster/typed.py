"""The typed client of authors: lightkube's, whose requests are sent as the runtime's own are.

They have the same connections, credentials, fence and metrics. Only what runs in a container, as
`exec` does, needs a connection of its own; it is fenced as a write. The extra `client` has it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2
from lightkube import AsyncClient, SingleConfig
from lightkube.config.models import Cluster, Context, User

from kopf_runtime.cluster import proxies
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.http import Answer, HttpError


class _Sends(Protocol):
    """What the runtime's client offers."""

    async def open_answer(
        self, method: str, path: str, body: bytes | None, *, content_type: str, query: str
    ) -> tuple[Answer, bytes | None]: ...

    def release(self, answer: Answer) -> None: ...

    def may_run(self, path: str) -> None: ...

    async def renewed(self, path: str) -> Credentials: ...


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, such as a log that is still written; `opened` ends with it.

    `silence` is the number of seconds to wait for its next part; None is for a log that is
    followed, in which nothing need happen: if the server is gone, its connection ends.
    """

    def __init__(self, answer: Answer, silence: float | None, opened: ExitStack) -> None:
        self._answer, self._silence, self._opened = answer, silence, opened

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._answer.chunks()
        with self._opened:
            while True:
                try:
                    async with asyncio.timeout(self._silence):
                        chunk = await anext(chunks, None)
                except TimeoutError as error:
                    raise httpx2.ReadTimeout(f"nothing for {self._silence:g} seconds") from error
                except HttpError as error:
                    raise httpx2.ReadError(str(error)) from error
                if chunk is None:
                    return
                yield chunk

    async def aclose(self) -> None:
        self._opened.close()


class _Transport(httpx2.AsyncBaseTransport):
    """Sends lightkube's requests by the runtime's client."""

    def __init__(self, client: _Sends, server: str) -> None:
        self._client, self._server = client, urlsplit(server)
        #: The path at which the API begins, which the runtime's client adds by itself.
        self._root = self._server.path.rstrip("/")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raise the runtime's `ApiError` if there is no answer, or it is fenced."""
        path, query = request.url.raw_path.decode().partition("?")[::2]
        if "upgrade" in request.headers:
            return await self._run(request, path)
        answer, page = await self._client.open_answer(
            request.method,
            path.removeprefix(self._root),
            await request.aread() or None,
            content_type=request.headers.get("content-type", "application/json"),
            query=query,
        )
        with ExitStack() as opened:
            opened.callback(self._client.release, answer)
            if page is not None:
                return httpx2.Response(answer.status, headers=answer.headers, content=page)
            silence = request.extensions.get("timeout", {}).get("read")
            body = _Body(answer, silence, opened.pop_all())
            return httpx2.Response(answer.status, headers=answer.headers, stream=body)

    async def _run(self, request: httpx2.Request, path: str) -> httpx2.Response:
        async def before(event: str, _: object) -> None:
            """Ask again once it is connected, because that may take long."""
            if event.endswith("send_request_headers.started"):
                self._client.may_run(path)

        self._client.may_run(path)
        credentials = await self._client.renewed(path)
        request.headers.update(credentials.headers)
        request.extensions["trace"] = before
        proxy = credentials.proxy or proxies.of_environment(self._server)
        opened = httpx2.AsyncHTTPTransport(verify=credentials.ssl, proxy=proxy, trust_env=False)
        try:
            response = await opened.handle_async_request(request)
        except BaseException:
            await opened.aclose()
            raise
        response.stream = _Until(response.stream, opened.aclose)
        return response


class _Until(httpx2.AsyncByteStream):
    """A body that ends with its connection."""

    def __init__(self, body: Any, close: Callable[[], Awaitable[None]]) -> None:
        self._body, self._close = body, close

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._body:
            yield chunk

    async def aclose(self) -> None:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._close)
            await self._body.aclose()


def client(sends: _Sends, server: str, manager: str, namespace: str) -> AsyncClient:
    """Return a client of lightkube's; `manager` is the field manager of its writes."""
    config = SingleConfig(
        context_name="",
        context=Context(cluster="", namespace=namespace),
        cluster=Cluster(server=server, insecure=True),  # it is the transport that verifies
        user=User(),
    )
    return AsyncClient(
        config,
        transport=_Transport(sends, server),
        namespace=namespace,
        field_manager=manager,
        trust_env=False,
        lazy=False,
    )
