"""On OpenShift nothing has to be set; the real API server is asked in tests/faults."""

import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

import kopf_runtime as kr
from message_operator import openshift
from message_operator.settings import Settings
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import connected

SERVES_GROUP = r"^/apis/security\.openshift\.io$"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer().running() as one:
        yield one


async def adapted(server: ApiServer, settings: Settings) -> Settings:
    async with connected(server) as client:
        return await openshift.adapt(client, settings)


async def has_the_group(request: web.Request) -> web.Response | None:
    if request.path != "/apis/security.openshift.io":
        return None
    return web.json_response({"kind": "APIGroup", "name": "security.openshift.io"})


async def test_elsewhere_the_operator_gives_the_user(server: ApiServer) -> None:
    assert await adapted(server, Settings()) == Settings()
    assert [str(request) for request in server.requests] == ["GET /apis/security.openshift.io"]


async def test_on_openshift_the_cluster_does(server: ApiServer) -> None:
    server.answers.append(has_the_group)

    assert await adapted(server, Settings()) == Settings(message_user=None)


@pytest.mark.parametrize("said", [1000680000, None])
async def test_what_the_administrator_says_is_not_questioned(
    server: ApiServer, said: int | None
) -> None:
    server.answers.append(has_the_group)

    assert await adapted(server, Settings(message_user=said)) == Settings(message_user=said)
    assert not server.requests


async def test_a_server_that_knows_no_roles_yet_is_asked_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openshift, "PAUSES", (0.01, 0.01))
    server.refuse("GET", SERVES_GROUP, RefusedError(403, "Forbidden"), times=2)
    server.answers.append(has_the_group)

    assert await adapted(server, Settings()) == Settings(message_user=None)


async def test_a_server_that_does_not_say_is_taken_for_no_openshift_and_that_is_told(
    server: ApiServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openshift, "PAUSES", (0.01, 0.01))
    server.refuse("GET", SERVES_GROUP, RefusedError(403, "Forbidden"), times=3)

    with caplog.at_level(logging.WARNING):
        assert await adapted(server, Settings()) == Settings()

    assert "set --message-user=none" in caplog.text


@pytest.mark.parametrize("code", [401, 429, 500, 503])
async def test_no_answer_is_no_answer(server: ApiServer, code: int) -> None:
    server.refuse("GET", SERVES_GROUP, RefusedError(code, "Trouble"), float("inf"))

    with pytest.raises(kr.ApiError):
        await adapted(server, Settings())
