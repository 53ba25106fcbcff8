"""The API client against a real HTTP server that answers as an API server does."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import kopf
import pytest
from aiohttp import web

from message_operator import kube
from message_operator.kube import Api, ApiError

CHECKOUT = Path(__file__).parents[2]
Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def serving(
    handler: Handler,
    token: str = "first",
    timeout: float = 5,
    observer: aiohttp.ClientMiddlewareType | None = None,
) -> AsyncIterator[Api]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = f"http://127.0.0.1:{runner.addresses[0][1]}"
    api = Api(timeout)
    observers = (observer,) if observer else ()
    session = api.login(kopf.ConnectionInfo(server=server, token=token), *observers)
    try:
        yield api
    finally:
        await session.aiohttp_session.close()
        await runner.cleanup()


def refusal(code: int, reason: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"{reason}: no"}
    return web.json_response(body, status=code, headers=headers)


async def test_an_answer_is_the_object() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"echo": await request.json(), "type": request.content_type})

    async with serving(answer) as api:
        found = await api.request("PATCH", "/x", {"텍스트": 1}, content_type=kube.MERGE_PATCH)

    assert found == {"echo": {"텍스트": 1}, "type": "application/merge-patch+json"}


async def test_a_refusal_tells_its_reason_and_how_long_to_wait() -> None:
    async def answer(_: web.Request) -> web.Response:
        return refusal(429, "TooManyRequests", **{"Retry-After": "7"})

    async with serving(answer) as api:
        with pytest.raises(ApiError) as error:
            await api.request("POST", "/x", {})

    assert (error.value.status, error.value.reason, error.value.after) == (
        429, "TooManyRequests", 7.0
    )  # fmt: skip
    assert "POST /x" in str(error.value)


@pytest.mark.parametrize("body", ["<html>", '{"half":'])
async def test_an_answer_that_is_no_object_is_an_error_like_any_other(body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    async with serving(answer) as api:
        with pytest.raises(ApiError, match="BadAnswer"):
            await api.request("GET", "/x")


async def test_a_server_that_hangs_is_given_up_on() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(answer, timeout=0.1) as api:
        with pytest.raises(ApiError) as error:
            await api.request("GET", "/x")

    assert error.value.status == 0


async def test_a_server_that_is_away_is_an_error_like_any_other() -> None:
    api = Api(1)
    session = api.login(kopf.ConnectionInfo(server="http://127.0.0.1:9"))  # the discard port

    with pytest.raises(ApiError) as error:
        await api.request("GET", "/x")

    assert error.value.status == 0
    await session.aiohttp_session.close()


async def test_before_the_login_there_is_no_request() -> None:
    with pytest.raises(ApiError, match="not logged in"):
        await Api(1).request("GET", "/x")


async def test_lists_are_read_page_by_page() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.query["limit"] == str(kube.PAGE)
        following = {"": "two", "two": ""}[request.query.get("continue", "")]
        item = request.query.get("continue", "one")
        meta = {"resourceVersion": "42", "continue": following}
        return web.json_response({"metadata": meta, "items": [{"name": item}]})

    async with serving(answer) as api:
        pages = [page async for page in api.pages("/x", {"labelSelector": "a=b"})]

    assert pages == [([{"name": "one"}], 42), ([{"name": "two"}], 42)]


async def test_a_rotated_token_is_read_again_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer second":
            return refusal(401, "Unauthorized")
        return web.json_response({"ok": True})

    def renewed() -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server="http://unused", token="second")

    monkeypatch.setattr(kube, "credentials", renewed)
    async with serving(answer) as api:
        first, second = await asyncio.gather(api.request("GET", "/a"), api.request("GET", "/b"))

    assert first == second == {"ok": True}


async def test_a_token_that_stays_wrong_is_refused_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return refusal(401, "Unauthorized")

    monkeypatch.setattr(
        kube, "credentials", lambda: kopf.ConnectionInfo(server="http://unused", token="first")
    )
    async with serving(answer) as api:
        with pytest.raises(ApiError) as error:
            await api.request("GET", "/x")

    assert error.value.status == 401
    assert asked == 1


def test_without_a_cluster_the_message_says_what_to_do(tmp_path: Path) -> None:
    # A process of its own: the Kubernetes client reads KUBECONFIG when it is imported.
    environment = {"KUBECONFIG": str(tmp_path / "missing"), "PYTHONPATH": "operator"}

    ended = subprocess.run(
        [sys.executable, "-m", "message_operator"],
        env=environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert ended.returncode == 1
    assert str(tmp_path / "missing") in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_one_session_serves_kopf_and_us() -> None:
    session = Api(1).login(kopf.ConnectionInfo(server="http://127.0.0.1:9"))

    assert isinstance(session.aiohttp_session, aiohttp.ClientSession)
    assert session.server == "http://127.0.0.1:9"
    await session.aiohttp_session.close()


async def test_a_write_is_stopped_at_the_fence_and_a_question_is_not() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    async with serving(answer) as api:
        api.may_write = lambda: False

        with pytest.raises(ApiError, match="Fenced"):
            await api.request("DELETE", "/x", {})
        await api.request("GET", "/x")
        await api.request("PUT", "/lease", {}, fenced=False)


async def test_kopfs_requests_are_observed_and_our_own_are_not() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    seen = []

    async def observer(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        seen.append(request.url.path)
        return await handler(request)

    async with serving(answer, observer=observer) as api:
        await api.request("GET", "/ours")
        assert api._session is not None
        async with api._session.get(f"{api._server}/kopfs"):
            pass

    assert seen == ["/kopfs"]
