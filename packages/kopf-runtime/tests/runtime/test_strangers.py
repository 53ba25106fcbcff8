"""Strangers at the webhooks' port: generated clients against the real listener, over TLS.

Honest reviews, from another address, must be answered meanwhile, and memory stays bounded. Each
case is made from a number; to see one again, set SEED.
"""

import asyncio
import contextlib
import os
import random
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import trustme

from kopf_kit.testing.process import free_port
from kopf_runtime.endpoints import reviews
from kopf_runtime.endpoints.room import Room
from runtime.support.certificates import trust_in, write_certificate

#: Serves what festivals.py and permits.py declare; says its peak of memory for each line it gets.
PROGRAM = """
import asyncio, pathlib, resource, sys
from unittest.mock import Mock
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.endpoints.reviews import Reviews
from kopf_runtime.endpoints.web import Server
from runtime import festivals, permits

async def main():
    reviews = Reviews([Versions.of(festivals.controller.declaration)],
        festivals.admit() + permits.admit())
    settings = Settings(metrics_bind_address=None, health_probe_bind_address=None,
        webhook_bind_address=("127.0.0.1", int(sys.argv[1])), webhook_cert_path=sys.argv[2])
    await Server(Metrics("o", "1")).start(settings, Mock(), str, str, reviews.routes)
    while True:
        lines = open("/proc/self/status").read().splitlines()
        print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), flush=True)
        if not await asyncio.to_thread(sys.stdin.readline):
            break

asyncio.run(main())
"""
#: Bytes that all reviews together may take.
BOUND = 176 * 1024 * 1024
#: Seconds after which an API server gives up on a conversion, and on an admission.
CONVERSION, ADMISSION = 30.0, 10.0
HONEST, STRANGERS = "127.0.0.9", ("127.0.0.2", "127.0.0.3", "127.0.0.4")
CONVERT, VALIDATE = "/convert", "/validate/festivals.example.dev/"
KOPF = "/kopf/validating/known-holder.permits.example.dev"


def conversion(objects: bytes) -> bytes:
    return (
        b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": '
        b'{"uid": "u", "desiredAPIVersion": "example.dev/v1", "objects": [' + objects + b"]}}"
    )


def alpha(status: bytes) -> bytes:
    return (
        b'{"apiVersion": "example.dev/v1alpha1", "kind": "Festival", "metadata": {"name": "one"}, '
        b'"spec": {"stageName": "a"}, "status": ' + status + b"}"
    )


def admission(status: bytes, old: bytes = b"null") -> bytes:
    spec = b'{"stages": [{"name": "a"}], "holder": "slow"}'
    thing = b'{"metadata": {}, "spec": %b, "status": {"a": %b}}' % (spec, status)
    return (
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": '
        b'{"uid": "u", "operation": "CREATE", "object": ' + thing + b', "oldObject": ' + old +
        b', "resource": {"group": "example.dev", "version": "v1", "resource": "permits"}}}'
    )  # fmt: skip


def text(size: int) -> bytes:
    """Return fields of an object as users fill them, of so many bytes."""
    field = b'"key-%05d": {"message": "some words that are the value", "ready": true}'
    return b"{" + b",".join(field % number for number in range(size // 70)) + b"}"


NESTED = b"[" + b'{"":{}},' * (reviews.SMALL // 8 - 50) + b"1]"
MANY = b"[" + b'{"":{}},' * (reviews.PARSED // reviews.PLACE // 3 - 99) + b"1]"
HUGE = b'{"a":"' + b"x" * (reviews.MAX_REVIEW_BYTES - 500) + b'"}'
#: Whole reviews of a stranger, each as costly as it can be.
COSTLY: dict[str, tuple[str, Callable[[], bytes]]] = {
    "many objects": (CONVERT, cache(lambda: conversion(b"0," * (1 << 18) + b"0"))),
    "too many objects": (CONVERT, cache(lambda: conversion(b"0," * (7 << 20) + b"0"))),
    "many values": (CONVERT, cache(lambda: conversion(alpha(b'{"a": %b}' % MANY)))),
    "one text": (CONVERT, cache(lambda: conversion(alpha(HUGE)))),
    "real": (CONVERT, cache(lambda: conversion(b",".join([alpha(b"{}")] * 20_000)))),
    "waits": (VALIDATE + "in-time", cache(lambda: admission(NESTED))),
    "waits for kopf": (KOPF, cache(lambda: admission(NESTED))),
}
#: What strangers do, beside sending whole reviews.
SLOW = ("says nothing", "sends nothing", "trickles", "is cut off", "stops")


class Stranger(NamedTuple):
    """What a stranger does, from one address and over so many connections."""

    does: str
    address: str
    connections: int
    length: int


class Port:
    """The port of a server of its own process."""

    def __init__(self, port: int, trust: ssl.SSLContext, process: Any) -> None:
        self.url, self._port, self._trust = f"https://127.0.0.1:{port}", port, trust
        self._process = process

    async def memory(self) -> int:
        """Return the bytes that it had at most."""
        self._process.stdin.write(b"\n")
        return int(await self._process.stdout.readline()) * 1024

    async def usual(self, path: str, body: bytes, deadline: float) -> float:
        """Return the seconds that an honest review takes, which must be answered."""
        connector = aiohttp.TCPConnector(ssl=self._trust, local_addr=(HONEST, 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            began = time.monotonic()
            limits = aiohttp.ClientTimeout(total=deadline)
            async with session.post(self.url + path, data=body, timeout=limits) as answer:
                said = await answer.read()
                assert answer.status == 200, said
                assert b'"Success"' in said or b'"allowed":true' in said, said[:300]
            return time.monotonic() - began

    @contextlib.asynccontextmanager
    async def visited(self, strangers: list[Stranger]) -> AsyncIterator[None]:
        """Let strangers come, and stay during the block."""
        tasks = [
            asyncio.create_task(self._stay(stranger))
            for stranger in strangers
            for _ in range(stranger.connections)
        ]
        await asyncio.sleep(0.3)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stay(self, stranger: Stranger) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with self._connected(stranger) as (reader, writer):
                    await self._do(stranger, reader, writer)
            await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def _connected(self, stranger: Stranger) -> AsyncIterator[tuple[Any, Any]]:
        tls = None if stranger.does == "says nothing" else self._trust
        place = ("127.0.0.1", self._port)
        reader, writer = await asyncio.open_connection(
            *place, local_addr=(stranger.address, 0), ssl=tls
        )
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _do(self, stranger: Stranger, reader: Any, writer: Any) -> None:
        path, made = COSTLY.get(stranger.does, (CONVERT, lambda: b" " * stranger.length))
        body = made()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        if stranger.does in COSTLY:
            writer.write(head + body)
            await writer.drain()
            await reader.readuntil(b"\r\n\r\n")  # and not the answer
        elif stranger.does in ("trickles", "is cut off", "stops"):
            writer.write(head + b" " * (1 if stranger.does == "trickles" else len(body) // 2))
            await writer.drain()
            while stranger.does == "trickles" and not writer.is_closing():
                await asyncio.sleep(0.2)
                writer.write(b" ")
                await writer.drain()
        if stranger.does not in ("is cut off", *COSTLY):
            await reader.read()


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Port]:
    authority, port = trustme.CA(), free_port()
    write_certificate(folder / "tls", authority)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(port), str(folder / "tls")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield Port(port, trust_in(authority), process)
    finally:
        process.kill()
        await process.wait()


def strangers(seed: int, dice: random.Random) -> Iterator[Stranger]:
    """Yield the strangers of a case: of one address, or of three at most."""
    kinds = (*SLOW, *COSTLY)
    does = kinds[seed % len(kinds)]  # each kind comes soon
    for address in STRANGERS[: dice.choice((1, 1, 2, 3))]:
        for _ in range(dice.choice((1, 1, 2))):
            length = dice.choice((reviews.SMALL, 200_000, 1 << 20, reviews.MAX_REVIEW_BYTES))
            yield Stranger(does, address, dice.randint(8, 16 if does in COSTLY else 60), length)
            does = dice.choice(kinds)


def honest(dice: random.Random) -> tuple[str, bytes, float]:
    """Return a review of an API server: of a page of a list, or of an object."""
    size = dice.choice((1_000, 100_000, 265_000, 1 << 20))
    if dice.random() < 0.5:
        return CONVERT, conversion(b",".join([alpha(text(1_000))] * (size // 1_000))), CONVERSION
    thing = b'{"metadata": {}, "spec": {"stages": [{"name": "a"}]}, "status": %b}' % text(3 * size)
    return VALIDATE + "fair-names", admission(b"1", thing), ADMISSION


async def search(folder: Path, seeds: list[int]) -> None:
    began = time.monotonic()
    async with serving(folder) as port:
        before = await port.memory()
        slow = 1.0
        for seed in seeds:
            # On a busy machine, all takes longer: a megabyte takes a fifth of a second on another.
            megabyte = conversion(b",".join([alpha(text(1_000))] * 1_000))
            slow = max(slow, await port.usual(CONVERT, megabyte, 600) / 0.2)
            dice = random.Random(seed)  # noqa: S311
            visiting, asked = list(strangers(seed, dice)), [honest(dice) for _ in range(2)]
            told = f"SEED={seed}: {visiting}, {[(path, len(body)) for path, body, _ in asked]}"
            async with port.visited(visiting):
                for path, body, deadline in asked:
                    try:
                        await port.usual(path, body, deadline * slow)
                    except (AssertionError, TimeoutError, aiohttp.ClientError) as error:
                        pytest.fail(f"{told}: {len(body)} at {path}: {error!r}")
            taken = await port.memory() - before
            assert taken < BOUND, f"{told}: {taken >> 20} MiB"
    print(f"seeds {seeds[0]} to {seeds[-1]}: {time.monotonic() - began:.0f} s, {taken >> 20} MiB")  # noqa: T201


async def test_t4_honest_reviews_are_answered_whatever_strangers_do(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", "0"))
    await search(tmp_path, [seed] if seed else list(range(1, 4)))


@pytest.mark.long
async def test_t4_honest_reviews_are_answered_whatever_strangers_do_long(tmp_path: Path) -> None:
    await search(tmp_path, list(range(100, 300)))


async def test_an_address_waits_for_one_of_each_other_one_at_most() -> None:
    room, order = Room(4, 2), list[str]()

    async def come(address: str, size: int) -> None:
        async with room.part(address, size):
            order.append(address)
            await asyncio.sleep(0)

    crowd = [asyncio.create_task(come(address, 2)) for address in "abc" for _ in range(20)]
    await asyncio.sleep(0)
    honest = asyncio.create_task(come("honest", 2))
    honest_too = asyncio.create_task(come("honest", 1))
    gone = [task for number, task in enumerate(crowd) if number % 3 == 1]
    await honest
    assert order.index("honest") <= 5, order
    for task in gone:
        task.cancel()
    await asyncio.gather(*crowd, honest_too, return_exceptions=True)
    assert (room._taken, room._waiting, room._last) == ({}, [], {})
