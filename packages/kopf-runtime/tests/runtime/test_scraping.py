"""/metrics over real TLS: who may scrape it, and what strangers cost."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

import aiohttp
import pytest
import trustme
from aiohttp import web
from yarl import URL

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.endpoints import pages, scrapers
from kopf_runtime.endpoints.pages import Page, Pages
from kopf_runtime.endpoints.scrapers import ACCESS_REVIEWS, TOKEN_REVIEWS
from kopf_runtime.endpoints.web import MAX_CONNECTIONS, CertificateError, Server, listen, renewing
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.certificates import trust_in, write_certificate
from runtime.support.running import connected
from runtime.support.waiting import in_virtual_time, now, until

HERE = ("127.0.0.1", 0)
PROMETHEUS = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}


@dataclass
class Reviews:
    """What the API server knows of tokens, and what it was asked."""

    users: dict[str, dict[str, Any]]
    scrapers: set[str]
    asked: list[dict[str, Any]] = field(default_factory=list)
    #: Cleared, it hangs.
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request) -> web.Response | None:
        if request.path not in (TOKEN_REVIEWS, ACCESS_REVIEWS):
            return None
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        await self.answering.wait()
        if request.path == ACCESS_REVIEWS:
            return web.json_response({"status": {"allowed": spec["user"] in self.scrapers}})
        user = self.users.get(spec["token"])
        status = {"authenticated": True, "user": user} if user else {"error": "invalid token"}
        return web.json_response({"status": status})


@pytest.fixture
def reviews(server: ApiServer) -> Reviews:
    users = {"good": PROMETHEUS, "other": {"username": "jane"}}
    known = Reviews(users, {PROMETHEUS["username"]})  # type: ignore[arg-type]
    known.answering.set()
    server.answers.append(known)
    return known


CA = trustme.CA()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificate(tmp_path / "certificate", CA)
    return tmp_path / "certificate"


@dataclass
class Scraper:
    """Scrapes as Prometheus does, over one connection that it keeps."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, token: str = "", **headers: str) -> aiohttp.ClientResponse:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with self.session.get(self.url, headers=headers) as response:
            await response.read()
            return response

    async def status(self, token: str = "", **headers: str) -> int:
        return (await self.get(token, **headers)).status


@asynccontextmanager
async def scraping(url: str, ca: trustme.CA = CA) -> AsyncIterator[Scraper]:
    connector = aiohttp.TCPConnector(ssl=trust_in(ca), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Scraper(url, session)


@asynccontextmanager
async def serving(server: ApiServer, folder: Path | None) -> AsyncIterator[tuple[str, str, Client]]:
    """Serve; give the URLs of the metrics and of the health, and the operator's client."""
    metrics = Metrics("tester")
    endpoints = Server(metrics)
    settings = replace(
        Settings(),
        metrics_bind_address=HERE,
        health_probe_bind_address=HERE,
        metrics_cert_path=str(folder or ""),
    )
    async with connected(server, metrics) as client:
        await endpoints.start(settings, client, lambda: "", lambda: "")
        try:
            metrics_port, health_port = (served.address[1] for served in endpoints._pages)
            scheme = "https" if folder else "http"
            yield (
                f"{scheme}://127.0.0.1:{metrics_port}/metrics",
                f"http://127.0.0.1:{health_port}/healthz",
                client,
            )
        finally:
            await endpoints.stop()


@asynccontextmanager
async def scraped(server: ApiServer, folder: Path | None) -> AsyncIterator[Scraper]:
    async with serving(server, folder) as (url, _, _), scraping(url) as scraper:
        yield scraper


async def test_a_loop_that_hangs_is_not_healthy(server: ApiServer) -> None:
    def status(seconds: float) -> int:
        try:
            with urlopen(url, timeout=seconds) as answer:  # noqa: S310 (our own URL)
                return int(answer.status)
        except TimeoutError:
            return 0

    async with serving(server, None) as (_, url, _):
        with ThreadPoolExecutor() as kubelet:
            assert await asyncio.wrap_future(kubelet.submit(status, 30.0)) == 200
            assert kubelet.submit(status, 0.5).result() == 0  # the loop waits for it meanwhile


# --- who may ------------------------------------------------------------------------------------


async def test_without_a_certificate_metrics_are_plain_and_open(
    server: ApiServer, reviews: Reviews
) -> None:
    async with scraped(server, None) as scraper:
        assert await scraper.status() == 200

    assert reviews.asked == []


async def test_a_page_that_fails_is_an_error_and_logged(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Metrics, "text", None)
    async with scraped(server, None) as scraper:
        assert await scraper.status() == 500
    assert "/metrics cannot be served" in caplog.text


async def test_metrics_need_a_right(server: ApiServer, reviews: Reviews, folder: Path) -> None:
    async with serving(server, folder) as (url, _, client), scraping(url) as scraper:
        client.may_write = lambda: False  # a standby lets scrapers in, too
        header = {"Authorization": "Bearer good"}
        async with scraper.session.get(scraper.url, headers=header) as response:
            assert response.status == 200
            assert "tester_build_info" in await response.text()

    assert reviews.asked == [
        {"token": "good"},
        {
            "user": PROMETHEUS["username"],
            "uid": "u-1",
            "groups": PROMETHEUS["groups"],
            "extra": PROMETHEUS["extra"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    ]


async def test_who_has_no_valid_token_is_told_to_bring_one(
    server: ApiServer, reviews: Reviews, folder: Path
) -> None:
    async with scraped(server, folder) as scraper:
        assert (await scraper.get()).headers["WWW-Authenticate"] == "Bearer"
        for header in ("", "Basic Zzo=", "Bearer", "Bearer  ", "Bearer tökén", "good"):
            assert await scraper.status(Authorization=header) == 401, header
        assert reviews.asked == []  # the API server is not bothered with that

        assert await scraper.status("made-up") == 401


# --- what the API server is asked -----------------------------------------------------------------


async def test_the_api_server_is_asked_once_for_many_scrapes(
    server: ApiServer, reviews: Reviews, folder: Path
) -> None:
    reviews.answering.clear()
    async with scraped(server, folder) as scraper:
        at_once = asyncio.gather(*(scraper.status("good") for _ in range(20)))
        await until(lambda: reviews.asked)
        reviews.answering.set()

        assert await at_once == [200] * 20
        assert await scraper.status("good") == 200
    assert len(reviews.asked) == 2


@pytest.mark.parametrize(("before", "after"), [(200, 403), (403, 200)])
async def test_a_right_that_is_taken_away_or_given_is_noticed(
    server: ApiServer,
    reviews: Reviews,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: int,
    after: int,
) -> None:
    monkeypatch.setattr(scrapers, "ALLOWED", 0.05)
    monkeypatch.setattr(scrapers, "REFUSED", 0.05)
    rights: dict[int, set[str]] = {200: reviews.scrapers, 403: set()}
    async with scraped(server, folder) as scraper:
        reviews.scrapers = rights[before]
        assert await scraper.status("good") == before

        reviews.scrapers = rights[after]
        async with asyncio.timeout(60):
            while await scraper.status("good") != after:
                await asyncio.sleep(0.01)


async def test_d19_who_floods_from_one_address_locks_out_no_other(
    server: ApiServer, reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapers, "WITHIN", 3600.0)
    monkeypatch.setattr(scrapers, "ALLOWED", 0.0)  # so that each scrape is reviewed
    async with connected(server) as client:
        gate = scrapers.Scrapers(client)
        assert (await gate.judge("Bearer other", "10.0.0.1")).status == 403
        assert (await gate.judge("Bearer good", "10.0.0.1")).status == 200

        async def flood(*addresses: str) -> list[int]:
            tokens = enumerate(addresses, len(reviews.asked))
            return [
                (await gate.judge(f"Bearer made-up-{n}", address)).status for n, address in tokens
            ]

        answers = await flood(*["10.0.0.1"] * 100)
        assert answers.count(401) == scrapers.EACH - 2
        assert set(answers) == {401, 429}
        assert (await gate.judge("Bearer good", "10.0.0.1")).status == 200  # it is known
        assert (await gate.judge("Bearer good", "10.0.0.2")).status == 200
        many = await flood(*(f"10.0.{number // 100}.{number % 100}" for number in range(1000)))
        assert many.count(401) < scrapers.ALL


async def test_strangers_are_let_in_again_when_the_flood_is_over(
    server: ApiServer, reviews: Reviews, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapers, "WITHIN", 3600.0)
    async with scraped(server, folder) as scraper:
        async with asyncio.timeout(60):
            while await scraper.status(f"made-up-{len(reviews.asked)}") != 429:
                pass
            monkeypatch.setattr(scrapers, "WITHIN", 0.05)
            while await scraper.status("good") == 429:
                await asyncio.sleep(0.01)

        assert await scraper.status("good") == 200


async def test_the_answers_that_are_kept_are_bounded_and_hold_no_token(
    server: ApiServer, reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapers, "EACH", 10_000)
    monkeypatch.setattr(scrapers, "ALL", 10_000)
    monkeypatch.setattr(scrapers, "KEPT", 20)
    async with connected(server) as client:
        gate = scrapers.Scrapers(client)
        for number in range(100):
            reviews.users[f"secret-{number}"] = PROMETHEUS
            assert (await gate.judge(f"Bearer secret-{number}")).status == 200

    assert len(gate._answers) == 20
    assert not gate._reviews
    assert "secret" not in repr(gate._answers)


@pytest.mark.parametrize("protected", [True, False])
async def test_idle_connections_are_bounded_and_shut_out_neither_scrapes_nor_probes(
    server: ApiServer, reviews: Reviews, folder: Path, protected: bool
) -> None:
    async with serving(server, folder if protected else None) as (url, health, _):
        for address in (url, health):
            port = URL(address).port
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
            ends = [asyncio.create_task(reader.read()) for reader, _ in idle]

            async with scraping(address) as scraper:
                assert await scraper.status("good") == 200
            await until(lambda: len([end for end in ends if not end.done()]) < MAX_CONNECTIONS)  # noqa: B023
            for _, writer in idle:
                writer.close()
            await asyncio.gather(*ends, return_exceptions=True)


def test_d21_a_flood_from_one_address_shuts_out_no_other() -> None:
    with listen("127.0.0.1", 0) as listener, contextlib.ExitStack() as stack:

        def connect(address: str) -> socket.socket:
            server, source = ("127.0.0.1", listener.getsockname()[1]), (address, 0)
            one = stack.enter_context(socket.create_connection(server, source_address=source))
            stack.enter_context(listener.accept()[0])
            return one

        probe = connect("127.0.0.2")
        for _ in range(100):
            connect("127.0.0.1")

        probe.setblocking(False)
        with pytest.raises(BlockingIOError):  # it is open, and waits for its answer
            probe.recv(1)


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_an_address_is_listened_on_and_told_if_it_is_taken(host: str) -> None:
    with listen(host, 0) as first:
        port = first.getsockname()[1]
        socket.create_connection((host or "127.0.0.1", port), timeout=5).close()

        with pytest.raises(OSError, match=f"in use .*{port}"):
            listen(host, port)


REQUESTS = (
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good\r\n\r\n",
    b"POST /healthz?a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    b"GET /nowhere HTTP/1.0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n\r\n",
)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_a_client_sends_it_is_answered_or_refused_and_others_are_served(
    server: ApiServer, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random, loop = Random(seed), asyncio.get_running_loop()  # noqa: S311
    troubles: list[Any] = []
    loop.set_exception_handler(lambda _, context: troubles.append(context))

    def garbled() -> bytes:
        data = bytearray(b"".join(random.choices(REQUESTS, k=random.choice((1, 1, 2)))))
        for _ in range(random.choice((0, 0, 1, 3))):
            at = random.randrange(len(data))
            data[at : at + random.randrange(4)] = random.randbytes(random.randrange(4))
        return bytes(data)

    async def client(data: bytes, port: int | None, seconds: float = 30.0) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(OSError):
            while data:
                part, data = data[: (some := random.randrange(1, 60))], data[some:]
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if random.random() < 0.5:
                writer.write_eof()
        answered = b""
        with contextlib.suppress(OSError, TimeoutError):
            answered = await asyncio.wait_for(reader.read(1 << 16), seconds)
        writer.close()
        return answered

    async with serving(server, None) as (_, health, _):
        port = URL(health).port
        for request, status in zip(REQUESTS, (200, 404, 405, 404, 404, 200, 404), strict=True):
            answered = await client(request, port)
            assert answered.startswith(b"HTTP/1.1 %d " % status), (request, answered)
        for case in range(100):
            sent = garbled()
            _, probe = await asyncio.gather(client(sent, port, 0.01), client(REQUESTS[0], port))
            assert probe.endswith(b"\r\n\r\nok"), (seed, case, sent)
    assert not troubles, troubles
    assert not caplog.records


@asynccontextmanager
async def page(
    body: bytes, folder: Path | None = None, takes: float = 0.0
) -> AsyncIterator[tuple[int, list[str]]]:
    """Serve a page; give the port, and a list of the tokens with which it was asked for."""
    asked: list[str] = []

    async def answer(authorization: str, address: str) -> Page:
        assert address == "127.0.0.1"
        asked.append(authorization)
        await asyncio.sleep(takes)
        return Page(body)

    def kept() -> list[Any]:
        gc.collect()
        known = (each for each in gc.get_objects() if isinstance(each, pages._Connection))
        return [connection for connection in known if connection._pages is served]

    served = Pages({"/metrics": answer})
    tls = renewing("", folder) if folder else None
    await served.start(listen(*HERE), tls, MAX_CONNECTIONS)
    try:
        yield served.address[1], asked
        await until(lambda: not kept())  # nothing holds a connection that its client has closed
        assert not served.open
    finally:
        served.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", served.address[1])


async def test_who_reads_slowly_gets_all_of_an_answer_that_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = listen

    def listen_with_little_room(*address: Any) -> socket.socket:
        listener = real(*address)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listener

    monkeypatch.setattr(pages, "LINGER", 0.1)
    monkeypatch.setitem(globals(), "listen", listen_with_little_room)
    async with page(b"x" * 60_000) as (port, _), asyncio.timeout(30):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
            read = b""
            while data := await loop.sock_recv(client, 2_000):
                read += data
                await asyncio.sleep(0.02)
    assert read.endswith(b"x" * 60_000)


@pytest.mark.parametrize("protected", [True, False])
async def test_r1_who_reads_no_answer_gets_no_other_one_and_is_closed(
    folder: Path, protected: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pages, "PATIENCE", 1.0)
    async with page(b"x" * 10_000_000, folder if protected else None) as (port, asked):
        trust = trust_in(CA) if protected else None
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, limit=1024)
        lost = asyncio.create_task(writer.wait_closed())
        async with asyncio.timeout(30):
            while not writer.is_closing():
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
                await asyncio.sleep(0.02)
                assert len(asked) <= 1 + protected  # TLS has a buffer of its own
        await asyncio.wait([lost])
    assert "it is pending" not in caplog.text  # nothing goes on for it


@in_virtual_time
async def test_a_connection_is_closed_once_nothing_moves_on_it_for_long() -> None:
    async with page(b"x", takes=150.0) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            await asyncio.sleep(50)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\nx")).startswith(b"HTTP/1.1 200")
        idle = now()
        assert not await reader.read()
        assert now() - idle == pytest.approx(75)

        reader, refused = await asyncio.open_connection("127.0.0.1", port)
        refused.write(b"nonsense\r\n\r\n")
        assert b"This is no request" in await reader.readuntil(b"request:")
        idle = now()
        refused.write(b"more of it\r\n\r\n")
        assert b"HTTP/1.1" not in await reader.read()
        assert now() - idle == pytest.approx(1)
        for each in (writer, refused):
            each.close()


async def test_r5_no_more_connections_wait_than_may_be_open() -> None:
    async with page(b"") as (port, _):
        with contextlib.ExitStack() as waiting:
            for _ in range(MAX_CONNECTIONS + 1):  # the loop, which accepts them, is kept busy
                waiting.enter_context(socket.create_connection(("127.0.0.1", port), timeout=9))
            with pytest.raises(TimeoutError):
                socket.create_connection(("127.0.0.1", port), timeout=0.5)


@pytest.mark.parametrize(
    ("sent", "status", "closes"),
    [
        (b"GET http://operator:8080/metrics?a HTTP/1.1\r\n\r\n", 200, False),
        (b"GET http://operator:8080 HTTP/1.1\r\n\r\n", 404, False),
        (b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 200, True),
        (b"GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, True),
        (b"GET /metrics HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200, True),
        (b"GET /metrics HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", 200, True),
        (b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 405, True),
    ],
)
async def test_r12_a_request_of_another_form_or_with_a_body_is_answered_at_once(
    sent: bytes, status: int, closes: bool
) -> None:
    async with page(b"") as (port, _), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert b" GMT\r\n" in head
        assert (b"Connection: close" in head) is closes
        writer.close()


@pytest.mark.parametrize(
    ("more", "end", "status"), [(0, b"\r\n\r\n", 200), (1, b"\r\n\r\n", 400), (5, b"", 400)]
)
async def test_w2_a_huge_header_is_refused_before_its_end(
    more: int, end: bytes, status: int
) -> None:
    async with page(b"") as (port, asked), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begin = b"GET /metrics HTTP/1.1\r\nA: "
        writer.write(begin.ljust(16 * 1024 - len(end) + more, b"a") + end)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert (b"Connection: close" in head) is bool(more)
        assert len(asked) == (not more)
        writer.close()


@pytest.mark.parametrize("later", [0, 1])
@in_virtual_time
async def test_r12_a_request_that_begins_before_an_answer_is_not_answered(later: int) -> None:
    async with page(b"", takes=9) as (port, asked):
        begun = now()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        await asyncio.sleep(later)
        writer.write(b"GET /met")
        assert (await reader.read()).count(b"HTTP/1.1 200") == len(asked) == 1
        assert now() - begun < 10
        writer.close()


@pytest.mark.parametrize("after", [b"", b"garbage\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_what_follows_a_request_neither_ends_nor_repeats_its_answer(
    server: ApiServer, after: bytes
) -> None:
    async with serving(server, None) as (url, _, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n" + after)
        writer.write_eof()
        async with asyncio.timeout(30):
            answered = await reader.read()
        writer.close()

    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answered.count(b"HTTP/1.1") == 1
    assert b"tester_build_info" in answered


# --- an API server in trouble -----------------------------------------------------------------


async def test_a_scrape_is_refused_while_nobody_can_be_asked(
    server: ApiServer,
    reviews: Reviews,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(scrapers, "REFUSED", 0.0)
    server.answers.clear()
    met = server.refuse("POST", TOKEN_REVIEWS, RefusedError(500, "InternalError", "etcd is away"))
    server.answers.append(reviews)
    async with scraped(server, folder) as scraper:
        assert await scraper.status("good") == 503
        assert "The API server cannot say who may scrape /metrics" in caplog.text
        assert "etcd is away" in caplog.text
        assert await scraper.status("good") == 200  # the trouble has passed

    assert len(met) == 1
    assert "good" not in caplog.text


@pytest.mark.parametrize("path", [TOKEN_REVIEWS, ACCESS_REVIEWS])
async def test_nonsense_for_an_answer_lets_nobody_in(
    server: ApiServer, reviews: Reviews, folder: Path, path: str
) -> None:
    async def nonsense(request: web.Request) -> web.Response | None:
        return web.Response(text='{"status": []}') if request.path == path else None

    server.answers.insert(0, nonsense)
    async with scraped(server, folder) as scraper:
        assert await scraper.status("good") == 503


async def test_a_hung_api_server_holds_up_neither_probes_nor_the_operator_s_requests(
    server: ApiServer, reviews: Reviews, folder: Path
) -> None:
    reviews.answering.clear()
    async with (
        serving(server, folder) as (url, health, client),
        scraping(url) as scraper,
        aiohttp.ClientSession() as session,
    ):
        hanging = [asyncio.create_task(scraper.status(f"t-{number}")) for number in range(100)]
        await until(lambda: len(reviews.asked) == scrapers.EACH)

        async with session.get(health) as response:
            assert response.status == 200
        assert await client.ask("GET", "/version")
        for task in hanging:
            task.cancel()
        reviews.answering.set()


# --- the certificate ----------------------------------------------------------------------------


async def test_a_renewed_certificate_is_served_and_connections_stay(
    server: ApiServer, reviews: Reviews, folder: Path
) -> None:
    renewed = trustme.CA()
    async with serving(server, folder) as (url, _, _), scraping(url) as scraper:
        assert await scraper.status("good") == 200

        write_certificate(folder, renewed)

        async with scraping(url, renewed) as other:
            assert await other.status("good") == 200
        assert await scraper.status("good") == 200  # it would not trust a new connection
        async with scraping(url) as late:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await late.status("good")


async def test_half_a_renewal_changes_nothing(
    server: ApiServer, reviews: Reviews, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = trustme.CA()
    async with serving(server, folder) as (url, _, _):
        key = folder / "tls.key"
        key.unlink()  # with the former certificate
        renewed.issue_cert("127.0.0.1").private_key_pem.write_to_path(key)
        for _ in range(2):
            async with scraping(url) as scraper:
                assert await scraper.status("good") == 200
        key.unlink()
        async with scraping(url) as scraper:
            assert await scraper.status("good") == 200
        assert caplog.text.count("Still serving with the former one of") == 2

        key.symlink_to("..data/tls.key")
        write_certificate(folder, renewed)
        async with scraping(url, renewed) as scraper:
            assert await scraper.status("good") == 200


@pytest.mark.parametrize("trouble", ["no folder", "no key", "no PEM", "another's key"])
async def test_without_a_usable_certificate_it_does_not_start(
    server: ApiServer, folder: Path, trouble: str
) -> None:
    key = folder / "tls.key"
    match trouble:
        case "no folder":
            folder = folder / "nowhere"
        case "no key":
            key.unlink()
        case "no PEM":
            key.write_text("nonsense")
        case _:
            key.unlink()
            CA.issue_cert("127.0.0.1").private_key_pem.write_to_path(key)

    with pytest.raises(CertificateError, match=r"has no usable tls\.crt and tls\.key"):
        async with serving(server, folder):
            pass


async def test_a_scraper_that_says_no_goodbye_keeps_no_connection_open(
    server: ApiServer, reviews: Reviews, folder: Path
) -> None:
    async with serving(server, folder) as (url, _, _):
        connection = socket.create_connection(("127.0.0.1", URL(url).port or 0), timeout=10)
        silent = await asyncio.to_thread(
            trust_in(CA).wrap_socket, connection, server_hostname="127.0.0.1"
        )

    with contextlib.closing(socket.socket(fileno=silent.detach())) as bare:
        bare.settimeout(10)  # seconds; asyncio waits 30 for a goodbye
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.to_thread(bare.recv, 4096):
                pass
