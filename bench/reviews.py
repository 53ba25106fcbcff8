"""The measurement of reviews: conversions and admissions, asked as an API server asks for them.

The operators answer beside a reconcile that is busy, because somebody edits their objects all the
time. Nothing asks them but the benchmark, so the API server's own time is left out. Used by `run`.
"""

import asyncio
import contextlib
import itertools
import json
import shutil
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from bench import examples, peers, stage
from bench.api import Api
from bench.examples import MEMCACHEDS
from bench.peers import Peer
from bench.stage import Numbers
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import KitError
from kopf_kit.testing.process import free_port

#: Objects of a conversion, and edits in a second beside it.
OBJECTS, EDITS = 100, 20.0
#: Reviews that are asked for at the same time, when all of them are timed.
WIDTH = 4
_OLDER, _NEWER = (f"cache.example.com/{version}" for version in ("v1alpha1", "v1beta1"))
_LISTENS = 60.0
_VALIDATES = {
    "validated": "/validate/memcacheds.cache.example.com/affordable",
    "memcached-peer": "/validate-cache-example-com-v1beta1-memcached",
}
Raw = dict[str, Any]


async def reviews(peer: Peer, count: int) -> Numbers:
    """Measure so many conversions of 100 objects, then so many admissions of one.

    Raises KitError where an answer is not that all is well, or a conversion has lost something.
    """
    names = [f"m{i:05}" for i in range(OBJECTS)]
    spec = {"replicas": 1, "limits": {"memory": 64, "connections": 2048}}
    async with (
        examples.observed("memcached", names, MEMCACHEDS, spec, controllers=()) as (plane, api),
        _asking(plane, peer) as client,
        _busy(api, names),
    ):
        objects = (await api.request("GET", MEMCACHEDS))["items"]
        older = await client.convert(objects, _OLDER)
        again = await client.convert(older, _NEWER)
        if [raw["spec"] for raw in again] != [raw["spec"] for raw in objects]:
            raise KitError(f"{peer.title} has lost something in a conversion")
        found: Numbers = {}
        changed = {"object": objects[0], "oldObject": objects[0], "operation": "UPDATE"}
        for name, path, body in (
            ("convert", "/convert", _conversion(older, _NEWER)),
            ("admit", _VALIDATES[peer.program], _review("admission.k8s.io/v1", changed)),
        ):
            alone = await client.times(path, body, count, 1)
            found[f"{name}_p99"] = alone[int(count * 0.99)]
            began = time.monotonic()
            await client.times(path, body, count, WIDTH)
            found[f"{name}_all"] = time.monotonic() - began
        return found


def _review(version: str, request: Raw) -> bytes:
    kind = "AdmissionReview" if version.startswith("admission") else "ConversionReview"
    body = {"apiVersion": version, "kind": kind, "request": {"uid": "1", **request}}
    return json.dumps(body).encode()


def _conversion(objects: list[Raw], version: str) -> bytes:
    items = [{"apiVersion": _NEWER, "kind": "Memcached", **raw} for raw in objects]
    request = {"desiredAPIVersion": version, "objects": items}
    return _review("apiextensions.k8s.io/v1", request)


class _Client:
    """Asks for reviews at one address."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def ask(self, path: str, body: bytes) -> bytes:
        """Return an answer that says that all is well."""
        async with self._session.post(
            self._url + path, data=body, headers={"Content-Type": "application/json"}
        ) as answer:
            said = await answer.read()
        if b'"status":"Success"' not in said and b'"allowed":true' not in said:
            raise KitError(f"{path}: {answer.status} {said[:300].decode()}")
        return said

    async def convert(self, objects: list[Raw], version: str) -> list[Raw]:
        """Return objects in another version."""
        said = await self.ask("/convert", _conversion(objects, version))
        found: list[Raw] = json.loads(said)["response"]["convertedObjects"]
        return found

    async def times(self, path: str, body: bytes, count: int, width: int) -> list[float]:
        """Return what each of these reviews took, sorted; `width` at the same time."""
        left, taken = iter(range(count)), list[float]()

        async def work() -> None:
            for _ in left:
                began = time.monotonic()
                await self.ask(path, body)
                taken.append(time.monotonic() - began)

        async with asyncio.TaskGroup() as group:
            for _ in range(width):
                group.create_task(work())
        return sorted(taken)


@contextlib.asynccontextmanager
async def _asking(plane: ControlPlane, peer: Peer) -> AsyncIterator[_Client]:
    """Run an operator until it has nothing more to do, and yield a client that asks it."""
    folder, port = plane.folder / "webhook", free_port()
    _certify(plane, folder)
    flags = (
        (
            f"--webhook-bind-address=127.0.0.1:{port}",
            f"--webhook-cert-path={folder}",
            *("--metrics-bind-address=0", "--health-probe-bind-address=0"),
        )
        if peer.on_our_runtime
        else (f"-webhook-port={port}", f"-webhook-certificate={folder}")
    )
    trust = ssl._create_unverified_context()  # noqa: S323 (its certificate is self-signed)
    async with (
        peers.running(plane, peer, *flags, name="reviews") as process,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session,
    ):
        client = _Client(session, f"https://127.0.0.1:{port}")
        async with asyncio.timeout(_LISTENS):
            while True:
                process.check()
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    await client.convert([], _NEWER)
                    break
                await asyncio.sleep(0.1)
        await stage.quiet(process)
        yield client


def _certify(plane: ControlPlane, folder: Path) -> None:
    """Write a certificate into a folder, as a Secret is mounted."""
    folder.mkdir()
    for name in ("crt", "key"):
        shutil.copyfile(plane.certificates / f"apiserver.{name}", folder / f"tls.{name}")


@contextlib.asynccontextmanager
async def _busy(api: Api, names: list[str]) -> AsyncIterator[None]:
    """Edit the objects in turn, at a fixed rate, while the block lasts."""

    async def edit() -> None:
        began = time.monotonic()
        for number in itertools.count():
            size = 2 - number // len(names) % 2
            path = f"{MEMCACHEDS}/{names[number % len(names)]}"
            await api.patch(path, {"spec": {"replicas": size}})
            await asyncio.sleep(max(0, began + (number + 1) / EDITS - time.monotonic()))

    editing = asyncio.create_task(edit())
    try:
        yield
        if editing.done():
            editing.result()  # it has failed
    finally:
        editing.cancel()
        await asyncio.gather(editing, return_exceptions=True)
