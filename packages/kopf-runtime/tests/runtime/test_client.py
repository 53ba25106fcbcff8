"""The client against a real HTTP server that answers as an API server does."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
import pytest
import trustme
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.cluster import client as clients
from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from runtime.support.api_server import listening
from runtime.support.waiting import connecting_slowly

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOWHERE = kopf.ConnectionInfo(server="http://127.0.0.1:9")  # the discard port


@asynccontextmanager
async def serving(
    handler: Handler,
    token: str = "first",
    timeout: float = 5,
    metrics: Metrics | None = None,
    authority: trustme.CA | None = None,
    ca: Path | None = None,
) -> AsyncIterator[Client]:
    """Serve with a certificate of an authority, if given; the client trusts those in the file."""
    tls = None
    if authority is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
    client = Client("tester", "1", timeout, metrics or Metrics("tester"))
    client.may_write = lambda: True
    async with listening(handler, tls) as url:
        client.open(Credentials(kopf.ConnectionInfo(server=url, token=token, ca_path=ca)))
        try:
            yield client
        finally:
            await client.close()


def refusal(code: int, reason: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"{reason}: no"}
    return web.json_response(body, status=code, headers=headers)


async def empty(_: web.Request) -> web.Response:
    return web.json_response({})


async def unauthorized(_: web.Request) -> web.Response:
    return refusal(401, "Unauthorized")


async def test_an_answer_is_the_object() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"echo": await request.json(), "type": request.content_type})

    async with serving(answer) as client:
        echo = await client.ask("PATCH", "/x", {"텍스트": 1})

    assert echo == {"echo": {"텍스트": 1}, "type": "application/merge-patch+json"}


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("7", 7.0), ("-1", 0), ("soon", 0), ("9" * 5000, 0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0)],
    ids=str,
)
async def test_a_refusal_tells_its_reason_and_the_seconds_to_wait(
    after: str, seconds: float
) -> None:
    metrics = Metrics("tester")

    async def answer(_: web.Request) -> web.Response:
        return refusal(429, "TooManyRequests", **{"Retry-After": after})

    async with serving(answer, metrics=metrics) as client:
        with pytest.raises(ApiError, match="POST /x") as error:
            await client.request("POST", "/x", {})

    told = error.value
    assert (told.status, told.reason, told.after) == (429, "TooManyRequests", seconds)
    labels = {"method": "POST", "code": "429"}
    assert metrics.registry.get_sample_value("rest_client_requests_total", labels) == 1


ODD = [b"<html>", b"[1]", b"5", b'"no"', b"null", b'{"half":', b"[" * 5000]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((200, body) for body in (*ODD, b'{"a":' * 5000, b'{"a": "\xff"}')),
        *((502, body) for body in (*ODD, b'{"message": {}}')),
    ],
)
async def test_minor_11_an_answer_that_is_no_object_is_an_error(status: int, body: bytes) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, content_type="application/json")

    async with serving(answer) as client:
        with pytest.raises(ApiError, match="BadAnswer" if status == 200 else None) as error:
            await client.ask("POST", "/x", {})

    assert error.value.status in (status, 0)


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_a_redirect_takes_the_token_nowhere(status: int) -> None:
    """A webhook or an aggregated API server may have the API server redirect: CVE-2022-3172."""
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization", ""))
        return web.json_response({})

    async with serving(elsewhere) as other:
        assert other._credentials
        to = other._credentials.server

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": to + "/mine"})

        async with serving(answer) as client:
            for method in ("GET", "POST"):
                with pytest.raises(ApiError) as error:
                    await client.ask(method, "/x")
                assert error.value.status == status
            with pytest.raises(ApiError):
                await anext(client.lines("/x", ""))

    assert asked == []


async def test_congestion_one_timeout_gives_all_that_follow_the_time_that_they_need() -> None:
    asked = list[str]()
    connections = set[object]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        connections.add(request.transport)
        await asyncio.sleep(0.6)
        return web.json_response({"slow": True})

    async with serving(answer, timeout=0.4) as client:
        with pytest.raises(ApiError) as error:
            await client.ask("POST", "/x", {})
        assert (error.value.timed_out, error.value.status) == (True, 0)
        for _ in range(3):
            sent = (client.ask("POST", "/x", {}) for _ in range(5))
            assert await asyncio.gather(*sent) == [{"slow": True}] * 5

        with pytest.raises(ApiError):  # a Lease is given up, and tried again
            await client.ask("PUT", "/lease", {}, fenced=False)

    assert (asked.count("POST"), asked.count("PUT")) == (16, 1)
    assert len(connections) <= 1 + 5 + 1


@pytest.mark.parametrize(("needs", "late"), [(2, 1), (30, 20)], ids=["slow", "gone"])
async def test_congestion_the_first_late_request_gives_those_under_way_twice_the_time(
    needs: float, late: int
) -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(needs)
        return web.json_response({})

    async with serving(answer, timeout=1.5) as client, asyncio.timeout(25):
        sent = (client.ask("POST", "/x", {}) for _ in range(20))
        answers = await asyncio.gather(*sent, return_exceptions=True)

    errors = [error for error in answers if isinstance(error, ApiError) and error.timed_out]
    assert (len(answers), len(errors)) == (20, late)


async def test_congestion_who_does_not_even_connect_is_given_no_more_time() -> None:
    async with serving(empty, timeout=0.2) as client:
        async with connecting_slowly():
            for _ in range(3):
                async with asyncio.timeout(30):  # not PATIENT
                    with pytest.raises(ApiError):
                        await client.ask("GET", "/x")
        assert await client.ask("GET", "/x") == {}


def test_congestion_patience_is_twice_the_slowest_answer_and_fades(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: passed)
    patience = clients.Patience()
    assert patience.seconds(10) == 10
    patience.answered(12)
    patience.answered(0.01)
    assert patience.seconds(10) == 24
    patience.answered(24)
    assert patience.seconds(10) == 48
    patience.answered(48)
    assert patience.seconds(10) == clients.PATIENT
    assert patience.seconds(600) == 600
    passed += clients.HALVES
    assert 40 < patience.seconds(10) < 60
    patience.answered(30)
    assert patience.seconds(10) == 60
    passed += 10 * clients.HALVES
    assert patience.seconds(10) == 10


async def test_a_server_that_is_away_is_an_error_like_any_other() -> None:
    client = Client("tester", "1", 1, Metrics("tester"))
    client.open(Credentials(NOWHERE))

    with pytest.raises(ApiError) as error:
        await client.request("GET", "/x")

    assert error.value.status == 0
    told = "GET /x: ConnectionFailed: no connection to 127.0.0.1:9: Connection refused"
    assert str(error.value) == told
    await client.close()


def test_a_connection_that_fails_is_told_without_aiohttps_objects() -> None:
    where: Any = SimpleNamespace(host="api", port=443, ssl=object())
    unknown = socket.gaierror(-2, "Name or service not known")
    untrusted = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed")
    untrusted.verify_message = "self-signed certificate"
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")

    for error, why in (
        (aiohttp.ClientConnectorDNSError(where, unknown), "Name or service not known"),
        (aiohttp.ClientConnectorSSLError(where, plain), str(plain.strerror)),
        (
            aiohttp.ClientConnectorCertificateError(where, untrusted),
            "its certificate is not trusted: self-signed certificate",
        ),
    ):
        assert describe_error(error) == f"no connection to api:443: {why}"


@pytest.mark.parametrize("name", ["event_queue_var", "event_queue_loop_var", "settings_var"])
def test_where_kopf_event_cannot_post_is_told_and_an_author_s_own_key_too(name: str) -> None:
    with pytest.raises(LookupError) as error:
        ContextVar[int](name).get()

    assert describe_error(error.value).startswith("kopf.event() is for handlers of kopf")
    assert describe_error(KeyError(f"{name}_url")) == f"'{name}_url'"


async def test_before_the_session_is_open_and_after_it_is_closed_there_is_no_request() -> None:
    client = Client("tester", "1", 1, Metrics("tester"))
    with pytest.raises(ApiError, match="NotConnected"):
        await client.request("GET", "/x")

    client.open(Credentials(NOWHERE))
    await client.close()
    with pytest.raises(ApiError):
        await client.request("GET", "/x")


# --- the server's clock -------------------------------------------------------------------------


async def test_minor_9_the_time_is_the_api_servers() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": "Tue, 01 Jan 2030 00:00:00 GMT"})

    async with serving(answer) as client:
        await client.request("GET", "/x")

        assert 0 <= client.now() - 1893456000 < 60


# --- credentials --------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [True, False], ids=["with-client", "without-client"])
def test_a_kubeconfig_that_is_missing_is_named_with_what_to_do(
    found: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(missing))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: found or None)

    with pytest.raises(kopf.LoginError, match=f"there is no kubeconfig at {missing}; create a clu"):
        credentials.find()


def kubeconfig(user: str) -> str:
    return f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: c, user: {user[:9]!r}}}}}]
        clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:1"}}}}]
        users: [{{name: {user[:9]!r}, user: {{{user}}}}}]
    """


@pytest.mark.parametrize("user", ["exec: {command: gcloud}", '"exec": {"command": "aws"}'])
def test_d22_only_credentials_of_a_plugin_in_the_current_context_are_refused_without_the_client(
    user: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine, missing, theirs = (tmp_path / name for name in ("mine", "missing", "theirs"))
    mine.write_text(kubeconfig(""))  # as `kubectl proxy` is used
    theirs.write_text(kubeconfig(user))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("KUBECONFIG", f"{mine}:{missing}:{theirs}")
    assert credentials.find().server == "https://127.0.0.1:1"

    monkeypatch.setenv("KUBECONFIG", f"{theirs}:{missing}:{mine}")
    with pytest.raises(kopf.LoginError, match="install the package `kubernetes`"):
        credentials.find()


async def test_credentials_that_cannot_be_used_yet_leave_no_port_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For kopf starts again, and the port must be free."""
    info = kopf.ConnectionInfo(server="https://unused", ca_path=tmp_path / "missing")
    monkeypatch.setattr(credentials, "find", lambda: info)
    manager = kr.Manager("tester", kr.Settings)
    manager._configured = kr.Settings(
        metrics_bind_address=None, health_probe_bind_address=("127.0.0.1", 0)
    )
    try:
        with pytest.raises(FileNotFoundError):
            await manager._start(kopf.OperatorSettings())

        assert manager._server._pages == []
    finally:
        await manager._server.stop()


def found(token: str) -> Callable[[], kopf.ConnectionInfo]:
    return lambda: kopf.ConnectionInfo(server="http://unused", token=token)


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "UNAUTHORIZED", 0.0)


async def test_d18_requests_refused_together_are_all_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = asyncio.Barrier(8)

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer second":
            await refused.wait()
            return refusal(401, "Unauthorized")
        return web.json_response({"ok": await request.text()})

    def slowly() -> kopf.ConnectionInfo:
        time.sleep(0.1)
        return found("second")()

    monkeypatch.setattr(credentials, "find", slowly)
    async with serving(answer) as client:
        client._credentials._read -= credentials.UNAUTHORIZED  # type: ignore[union-attr]
        sent = (client.ask("POST", "/x", {"number": number}) for number in range(8))
        answers = await asyncio.gather(*sent)

    assert answers == [{"ok": f'{{"number":{number}}}'} for number in range(8)]


async def test_m4_a_slow_read_that_fails_is_not_repeated_by_each_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, now = 0, 0.0

    def find() -> kopf.ConnectionInfo:
        nonlocal reads, now
        reads, now = reads + 1, now + 2 * credentials.UNAUTHORIZED
        raise kopf.LoginError("the plugin does not answer")

    monkeypatch.setattr(credentials, "find", find)
    monkeypatch.setattr(credentials, "time", SimpleNamespace(monotonic=lambda: now))
    mine = Credentials(NOWHERE)
    now = credentials.UNAUTHORIZED
    await asyncio.gather(*(mine.refresh() for _ in range(5)))

    assert reads == 1


async def test_m4_credentials_are_read_again_once_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0

    def find() -> kopf.ConnectionInfo:
        nonlocal reads
        reads += 1
        return found("first")()

    monkeypatch.setattr(credentials, "find", find)
    monkeypatch.setattr(credentials, "UNAUTHORIZED", 3600.0)
    async with serving(unauthorized) as client:
        for _ in range(50):
            with pytest.raises(ApiError):
                await client.request("GET", "/x")

    assert reads == 0  # they were read when the session was opened


@pytest.mark.usefixtures("_at_once")
async def test_a_token_file_that_is_away_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> kopf.ConnectionInfo:
        raise FileNotFoundError("token")

    monkeypatch.setattr(credentials, "find", find)
    async with serving(unauthorized) as client:
        with pytest.raises(ApiError, match="401"):
            await client.request("GET", "/x")


# --- the fence ----------------------------------------------------------------------------------


async def test_a_write_whose_connection_outlasts_the_lease_is_not_sent() -> None:
    sent: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.method)
        return web.json_response({})

    async with serving(answer) as client, connecting_slowly() as connection:
        client.may_write = lambda: not connection.end.is_set()
        writing = asyncio.create_task(client.request("DELETE", "/x", {}))
        await connection.begun.wait()
        connection.end.set()

        with pytest.raises(ApiError, match="no longer the leader"):
            await writing
        assert sent == []
        client.may_write = lambda: True  # the client is as good as before
        await client.request("DELETE", "/x", {})


# --- watches ------------------------------------------------------------------------------------


async def test_a_watch_is_read_line_by_line_however_it_arrives() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b'{"a"', b":1}\n\n{", b'"b":2}\n{"c":', b"3}\n"):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async with serving(answer) as client:
        lines = [line async for line in client.lines("/x", "watch=1")]

    assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


@pytest.mark.parametrize(
    ("status", "line"),
    [(None, b""), (200, b""), (403, b""), (200, b"{}\n")],
    ids=["no answer", "no line", "no refusal", "no second line"],
)
async def test_a_watch_that_falls_silent_is_given_up(
    status: int | None, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status or 200)
        if status is not None:
            await response.prepare(request)
            await response.write(line)
        await asyncio.sleep(60)
        return response

    monkeypatch.setattr(clients, "SILENCE", 0.2)
    async with serving(answer) as client:
        with pytest.raises(ApiError):
            async for _ in client.lines("/x", "watch=1"):
                pass


async def test_a_watch_that_is_cancelled_as_it_opens_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(60)
        return response

    async with serving(answer) as client:
        send = client._send

        async def then_cancelled(*args: Any, **options: Any) -> Any:
            response = await send(*args, **options)
            asyncio.get_running_loop().call_soon(watching.cancel)
            return response

        monkeypatch.setattr(client, "_send", then_cancelled)
        watching = asyncio.ensure_future(anext(client.lines("/x", "watch=1")))
        await asyncio.wait([watching], timeout=10)
        assert watching.cancelled()


@pytest.mark.usefixtures("_at_once")
async def test_minor_8_an_untrusted_certificate_has_the_ca_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, rotated = trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.crt"
    former.cert_pem.write_to_path(ca)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"served": True})

    def find() -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server="https://unused", token="first", ca_path=ca)

    monkeypatch.setattr(credentials, "find", find)
    async with serving(answer, authority=rotated, ca=ca) as client:
        with pytest.raises(ApiError, match="its certificate is not trusted"):
            await client.request("GET", "/x")
        rotated.cert_pem.write_to_path(ca)
        with pytest.raises(ApiError, match="its certificate is not trusted"):
            await client.request("GET", "/x")  # this failure has it read again

        assert await client.ask("GET", "/x") == {"served": True}


async def test_a_token_is_read_again_before_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers["Authorization"])
        return web.json_response({})

    monkeypatch.setattr(credentials, "find", found("second"))
    monkeypatch.setattr(credentials, "UNAUTHORIZED", 0.0)
    async with serving(answer) as client:
        await client.request("GET", "/x")
        monkeypatch.setattr(credentials, "TOKEN_AGE", 0.0)
        await client.request("GET", "/x")

    assert tokens == ["Bearer first", "Bearer second"]


@pytest.mark.usefixtures("_at_once")
async def test_minor_8_a_rotated_ca_is_trusted_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = tmp_path / "ca.crt"
    info = kopf.ConnectionInfo(server="https://unused", token="first", ca_path=ca)
    failing = False

    def context(self: kopf.ConnectionInfo) -> ssl.SSLContext:
        if failing:
            raise OSError(24, "Too many open files")
        return ssl.create_default_context(cadata=ca.read_text())

    monkeypatch.setattr(kopf.ConnectionInfo, "as_ssl_context", context)
    monkeypatch.setattr(credentials, "find", lambda: info)
    trustme.CA().cert_pem.write_to_path(ca)
    mine = Credentials(info)
    before = mine.ssl
    await mine.refresh()
    assert mine.ssl is before  # connections are kept while nothing changes
    trustme.CA().cert_pem.write_to_path(ca)
    failing = True
    await mine.refresh()
    assert mine.ssl is before

    failing = False
    await mine.refresh()

    assert mine.ssl.get_ca_certs() != before.get_ca_certs()


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * 100_000)
            sent += 100_000
        return response

    async with serving(answer) as client:
        with pytest.raises(ApiError, match="TooLarge: more than 1000000 bytes"):
            await client.request("GET", "/x", most=1_000_000)

    assert sent < 50_000_000


async def test_a_reason_of_a_megabyte_is_cut() -> None:
    """A webhook chooses it, and one is kept for each object that is refused."""

    async def answer(_: web.Request) -> web.Response:
        return refusal(403, "X" * 1_000_000)

    async with serving(answer) as client:
        with pytest.raises(ApiError) as error:
            await client.request("POST", "/x", {})

    assert len(error.value.reason) <= 256
