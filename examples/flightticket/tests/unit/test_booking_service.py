"""The booking service beside its API: who is let in, and what harms it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from booking import server
from booking.process import TOKEN, BookingService, booking_service

BEARER = f"Authorization: Bearer {TOKEN}"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BookingService]:
    async with booking_service(tmp_path) as one:
        yield one


async def answer(service: BookingService, *head: str, body: bytes = b"") -> str:
    """Send a request as it is; return all that the service says until it hangs up."""
    host, _, port = service.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write("\r\n".join([*head, "Host: booking", "", ""]).encode() + body)
    try:
        return (await asyncio.wait_for(reader.read(), 60)).decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def status(service: BookingService, *, token: str = TOKEN) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{service.url}/bookings", params={"key": "one"}) as said,
    ):
        return said.status


async def test_who_has_no_token_is_not_recorded_and_uses_up_no_fault(
    service: BookingService,
) -> None:
    await service.fail({"kind": "answer", "status": 500, "times": 1})

    assert await status(service, token="guessed") == 401  # noqa: S106
    assert await service.calls() == []
    assert await status(service) == 500


@pytest.mark.parametrize(
    "length",
    [
        "Content-Length: 1000000000",
        "Content-Length: -1",
        f"Content-Length: {'9' * 5000}",
        "Content-Length: many",
        "Transfer-Encoding: chunked",
    ],
    ids=lambda length: length[:30],
)
async def test_a_body_without_a_length_or_with_a_large_one_is_not_read(
    service: BookingService, length: str
) -> None:
    said = await answer(service, "POST /bookings HTTP/1.1", BEARER, length)

    assert said.startswith("HTTP/1.1 400 ")
    assert said.endswith("its body needs a Content-Length of at most 65536")


async def test_a_body_that_is_nested_too_deep_is_refused_in_words(service: BookingService) -> None:
    body = b"[" * 60_000
    head = ("POST /bookings HTTP/1.1", BEARER, "Connection: close", f"Content-Length: {len(body)}")

    said = await answer(service, *head, body=body)

    assert said.startswith("HTTP/1.1 400 ")
    assert "The request makes no sense: " in said


async def test_tokens_that_are_not_there_are_told(service: BookingService) -> None:
    service.tokens.unlink()
    head = ("GET /bookings?key=one HTTP/1.1", BEARER, "Connection: close")

    assert (await answer(service, *head)).endswith(
        "The tokens cannot be read: No such file or directory"
    )


async def test_the_counter_tells_of_a_fault_and_of_a_booking_that_there_is_not(
    service: BookingService,
) -> None:
    for call, code in ((service.fail({"kind": "answr"}), 400), (service.change("one"), 404)):
        with pytest.raises(aiohttp.ClientResponseError) as refused:
            await call
        assert refused.value.status == code


@pytest.mark.parametrize(
    ("error", "printed"), [(ConnectionResetError(), False), (LookupError(), True)]
)
def test_only_a_client_that_hangs_up_leaves_no_traceback(
    error: Exception, printed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    office: Any = server.Office(server.Database(":memory:"), tmp_path)
    with server.Server(("127.0.0.1", 0), server.Clients, office) as one:
        try:
            raise error
        except Exception:
            one.handle_error(None, ("127.0.0.1", 1))

    assert ("Traceback" in capsys.readouterr().err) is printed
