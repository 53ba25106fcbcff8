"""Requests over connections that split, delay, cut, repeat and garble what is answered on them."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import trustme

from kopf_runtime.cluster import http, pool, proxies
from kopf_runtime.cluster.http import HttpError
from kopf_runtime.cluster.pool import Pool

Serve = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
WALKS = 40
#: A request that takes longer hangs.
HANGS = 20.0


class Server:
    """A server of raw bytes, which gets the target of each request and says how it is answered."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.url, self.asked = "", list[str]()
        self.connections, self.open, self.most = 0, set[asyncio.StreamWriter](), 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.most = max(self.most, len(self.open))
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                fields = dict(line.lower().split(": ", 1) for line in lines if line)
                await reader.readexactly(int(fields.get("content-length", "0")))
                self.asked.append(first)
                await self.serve(first.split(" ")[1], writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(serve)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        while server.open:  # else asyncio would cancel them with a traceback
            server.open.pop().transport.abort()
            await asyncio.sleep(0.001)


@asynccontextmanager
async def pooling(url: str, proxy: str | None = None) -> AsyncIterator[Pool]:
    shared = Pool(url, proxy)
    try:
        yield shared
    finally:
        await shared.close()


async def ask(
    shared: Pool, target: str, method: str = "GET", tls: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Send a request and return its answer; one that hangs fails the test."""
    async with asyncio.timeout(HANGS):
        body = None if method == "GET" else b"{}"
        answer = await shared.send(
            method, target, {}, body, tls=tls, check=lambda: None, seconds=HANGS
        )
        try:
            body = await answer.read()
            assert body is not None
            return answer.status, body
        finally:
            shared.release(answer)


def drawn(draw: random.Random, target: str) -> tuple[bytes, bytes, bool]:
    """Return an answer that names its request, its body, and whether the end of it is the end."""
    body = f"<{target}>".encode() * draw.choice((1, 1, 3, 5000))
    early = draw.choice((b"", b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"))
    head = b"HTTP/1.1 200 Fine\r\nDate: today\r\n"
    form = draw.choice(("length", "chunked", "trailers", "end"))
    if form == "length":
        return early + head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body), body, False
    if form == "end":
        return early + head + b"\r\n" + body, body, True
    size = draw.choice((1, 7, len(body)))
    parts = [body[at : at + size] for at in range(0, min(len(body), 40 * size), size)]
    body = b"".join(parts)
    chunks = b"".join(b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in parts)
    last = b"0\r\n" + (b"Digest: none\r\n" if form == "trailers" else b"") + b"\r\n"
    return early + head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + last, body, False


async def in_parts(writer: asyncio.StreamWriter, data: bytes, draw: random.Random) -> None:
    cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.choice((0, 1, 3))))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        writer.write(data[begin:end])
        await writer.drain()
        if draw.random() < 0.5:
            await asyncio.sleep(0)


class Fault:
    """A server whose answers are split, and sometimes cut, garbled, repeated or ended early."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        #: The body of each answer, None if it does not arrive as it was meant.
        self.bodies = dict[str, bytes | None]()

    async def __call__(self, target: str, writer: asyncio.StreamWriter) -> None:
        data, body, ends = drawn(self.draw, target)
        fault, at = self.draw.randrange(6), self.draw.randrange(len(data))
        self.bodies[target] = None if fault in (0, 1) else body
        if fault == 0:
            data = data[:at]
        elif fault == 1:
            data = data[:at] + bytes([self.draw.randrange(256)]) + data[at + 1 :]
        elif fault == 2 and not ends:
            data += data
        await in_parts(writer, data, self.draw)
        if ends or fault in (0, 1, 3):  # a length that is garbled may promise more
            writer.close()

    def check(self, target: str, status: int, body: bytes) -> None:
        """Fail if an answer is another one than that of its request."""
        expected = self.bodies[target]
        if expected is not None:
            assert (status, body) == (200, expected), f"{target} got another answer"
        others = (f"<{other}>".encode() for other in self.bodies if other != target)
        assert not any(other in body for other in others), f"{target}: {body[:80]!r}"


@pytest.mark.parametrize("seed", range(8))
async def test_an_answer_is_that_of_its_request_or_an_error(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    fault, outcomes = Fault(draw), set[str]()

    async def one(shared: Pool, target: str) -> None:
        try:
            fault.check(target, *await ask(shared, target, draw.choice(("GET", "GET", "PATCH"))))
        except HttpError as error:
            outcomes.add(type(error).__name__)
        else:
            outcomes.add("answered")

    async with serving(fault) as server, pooling(server.url) as shared:
        for walk in range(WALKS):
            targets = (f"/{walk}-{each}" for each in range(draw.choice((1, 4))))
            await asyncio.gather(*(one(shared, target) for target in targets))

    assert {"answered", "DisconnectedError", "BadAnswerError"} <= outcomes


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01" * 100,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * http.HEAD,
        b"HTTP/1.1 103 Early\r\nX: y\r\n\r\n" * 10_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
    ],
)
async def test_what_is_not_http_is_an_error(data: bytes) -> None:
    async def serve(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    async with serving(serve) as server, pooling(server.url) as shared:
        with pytest.raises(HttpError):
            await ask(shared, "/", "POST")


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "a", "/한글"])
async def test_what_is_no_target_is_not_sent(target: str) -> None:
    async with pooling("http://127.0.0.1:9") as shared:
        with pytest.raises(ValueError, match="is not a path"):
            await ask(shared, target)
        with pytest.raises(ValueError, match="ends its line"):
            await shared.send(
                "GET", "/", {"X": "a\r\nb"}, None, tls=None, check=lambda: None, seconds=1
            )


async def test_a_late_answer_costs_no_connection_and_answers_nothing_else() -> None:
    asked, late = asyncio.Event(), asyncio.Event()

    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        if target == "/late":
            asked.set()
            await late.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(target))
        writer.write(target.encode())

    async with serving(serve) as server, pooling(server.url) as shared:
        given_up = asyncio.create_task(ask(shared, "/late", "PATCH"))
        await asked.wait()
        given_up.cancel()
        assert await ask(shared, "/meanwhile") == (200, b"/meanwhile")
        late.set()
        async with asyncio.timeout(9):
            while shared._late:
                await asyncio.sleep(0.01)

        for each in range(2):
            targets = [f"/{each}", "/also"]
            answers = await asyncio.gather(*(ask(shared, target) for target in targets))
            assert answers == [(200, target.encode()) for target in targets]
        assert server.connections == 2


async def test_more_requests_than_connections_wait_for_their_turn() -> None:
    async def serve(_: str, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with serving(serve) as server, pooling(server.url) as shared:
        given_up = asyncio.create_task(ask(shared, "/given-up", "PATCH"))
        asking = [asyncio.create_task(ask(shared, "/", "PATCH")) for _ in range(250)]
        await asyncio.sleep(0.005)
        given_up.cancel()
        for each in asking[100:110]:
            each.cancel()
        answers = await asyncio.gather(*asking, return_exceptions=True)

        assert [answer for answer in answers if answer == (204, b"")] == [(204, b"")] * 240
        assert server.most <= pool.CONNECTIONS + 1  # and one that is just given up


async def test_a_read_is_sent_again_on_a_connection_that_just_ended_and_a_write_is_not() -> None:
    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        if target != "/again" or server.asked[-2:].count(server.asked[-1]) == 2:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.close()

    async with serving(serve) as server, pooling(server.url) as shared:
        await ask(shared, "/")
        assert await ask(shared, "/again") == (200, b"")
        with pytest.raises(HttpError):
            await ask(shared, "/again", "PATCH")

    assert [first.split(" ")[0] for first in server.asked] == ["GET", "GET", "GET", "PATCH"]


async def test_who_reads_a_stream_slowly_holds_only_a_part_of_it() -> None:
    async def serve(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50 * http.UNREAD)
        writer.close()

    async with serving(serve) as server, pooling(server.url) as shared:
        answer = await shared.send("GET", "/", {}, None, tls=None, check=lambda: None, seconds=9)
        size = 0
        async for part in answer.chunks():
            if not size:
                await asyncio.sleep(0.3)  # all of it would be here by now
                assert answer._unread < 4 * http.UNREAD  # type: ignore[attr-defined]
            size += len(part)
        shared.release(answer)

    assert size == 50 * http.UNREAD


async def test_t6_a_stream_that_is_paused_at_its_end_leaves_a_connection_that_reads() -> None:
    begun, size = asyncio.Event(), http.UNREAD + 2

    async def serve(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\nx".encode())
        await begun.wait()
        writer.write(b"x" * (size - 1))  # it is paused at the last byte

    async with serving(serve) as server, pooling(server.url) as shared, asyncio.timeout(HANGS):
        answer = await shared.send("GET", "/", {}, None, tls=None, check=lambda: None, seconds=9)
        parts = answer.chunks()
        await anext(parts)
        begun.set()
        while not answer.complete:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        assert 1 + sum([len(part) async for part in parts]) == size
        shared.release(answer)

        assert len((await ask(shared, "/next"))[1]) == size
        assert server.connections == 1


async def test_an_answer_that_is_given_up_half_way_is_no_part_of_the_next_one() -> None:
    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        if target == "/half":
            await asyncio.sleep(0.1)
        writer.write(b"cd")

    async with serving(serve) as server, pooling(server.url) as shared:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ask(shared, "/half", "PATCH")

        assert await ask(shared, "/whole", "PATCH") == (200, b"abcd")
        assert server.connections == 2


@pytest.mark.parametrize("server", ["http", "https"])
@pytest.mark.parametrize("user", ["", "joe:s%20t@"])
async def test_a_proxy_is_asked_for_the_server(server: str, user: str) -> None:
    authority = trustme.CA()
    given, trusting = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("127.0.0.1").configure_cert(given)
    authority.configure_trust(trusting)
    heads = list[bytes]()

    async def answer(target: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    async def proxying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head := await reader.readuntil(b"\r\n\r\n"))
        port = urlsplit(behind.url).port
        onward, back = await asyncio.open_connection("127.0.0.1", port)
        if server == "https":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            back.write(head.replace(b" " + behind.url.encode(), b" "))

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
            target.close()

        await asyncio.gather(copy(reader, back), copy(onward, writer))

    tls = given if server == "https" else None
    async with serving(answer, tls) as behind:
        listening = await asyncio.start_server(proxying, "127.0.0.1", 0)
        where = f"http://{user}127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with pooling(behind.url, where) as shared:
            assert await ask(shared, "/api?x", "PATCH" if tls else "GET", trusting) == (200, b"hi")
        listening.close()

    (head,) = heads
    asked = "CONNECT 127.0.0.1:" if tls else f"GET {behind.url}/api?x "
    assert head.decode().startswith(asked)
    assert (b"Proxy-Authorization: Basic am9lOnMgdA==" in head) == bool(user)


async def test_each_byte_may_be_the_last_of_a_part() -> None:
    data = b"HTTP/1.1 200 In Parts\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"

    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)

    async with serving(serve) as server, pooling(server.url) as shared:
        asked = shared.send("GET", "/", {}, None, tls=None, check=lambda: None, seconds=HANGS)
        answer = await asked
        assert (await answer.read(), answer.status, answer.reason) == (b"a", 200, "In Parts")
        shared.release(answer)


async def test_a_proxy_that_refuses_is_named_with_its_words() -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    listening = await asyncio.start_server(refusing, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with pooling("https://10.0.0.1", f"http://127.0.0.1:{port}") as shared:
        with pytest.raises(HttpError, match=f"127.0.0.1:{port}: the proxy refuses: HTTP/1.1 407"):
            await ask(shared, "/", tls=ssl.create_default_context())
    listening.close()


@pytest.mark.parametrize(
    ("url", "direct", "proxied"),
    [
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", "10.0.0.0/8,x", False),
        ("https://[fd00::1]", "fd00::/8", False),
        ("https://api.example.org", ".example.org", False),
        ("https://api.example.org", "10.0.0.0/8", True),
        ("https://localhost", "", False),
        ("https://127.0.0.1", "", False),
        ("http://api.example.org", "", False),
    ],
)
def test_the_environment_names_a_proxy_and_what_it_is_not_for(
    url: str, direct: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", direct if not proxied or "/" not in direct else "192.168.0.0/16")

    named = proxies.of_environment(urlsplit(url))

    assert named == ("http://proxy:3128" if proxied else None)
