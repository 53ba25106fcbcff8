"""What is measured in trouble: answers that are lost, and a neighbour's webhook that hangs.

Used by ``run``. All peers meet the same trouble.
"""

import asyncio
import base64
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from bench import peers, stage
from bench.api import Api
from bench.peers import Peer
from bench.stage import Numbers
from hack.rig.control_plane import ControlPlane

#: One answer to a write of so many is lost.
ONE_OF = 100
_NEIGHBOUR = "neighbour"
_HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_HEADERS = ("Authorization", "Content-Type", "User-Agent", "Accept")


async def lost(peer: Peer, count: int) -> Numbers:
    """Time a backlog while one of a hundred answers to writes never arrives."""
    async with stage.observed(peer) as (plane, api, world), _losing(plane) as (server, losses):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        world.want(texts)
        async with peers.running(plane, peer, name="lost", server=server) as process:
            done = await world.until_right(stage.PATIENCE)
            return {
                "lost_pod": None if world.podless else world.last_pod - process.started,
                "lost_status": world.last_status - process.started if done else None,
                "lost_answers": float(len(losses)),
            }


@contextlib.asynccontextmanager
async def _losing(plane: ControlPlane) -> AsyncIterator[tuple[str, list[str]]]:
    """Have a proxy that carries out every request, and keeps some answers to itself.

    Gives its address, and the requests whose answer was lost so far.
    """
    losses: list[str] = []
    dice = random.Random(1)  # noqa: S311 (the same losses for everyone)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=False),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await forward(request)
            except (aiohttp.ClientError, ConnectionError):  # one of the two is gone
                return web.Response(status=502)

        async def forward(request: web.Request) -> web.StreamResponse:
            headers = {key: request.headers[key] for key in _HEADERS if key in request.headers}
            async with session.request(
                request.method, plane.server + request.path_qs, headers=headers,
                data=await request.read() or None,
            ) as answer:  # fmt: skip
                if request.method != "GET" and dice.randrange(ONE_OF) == 0:
                    losses.append(f"{request.method} {request.path}")
                    if request.transport is not None:
                        request.transport.abort()
                    return web.Response()
                passed = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.content_type}
                )
                writer = await passed.prepare(request)
                if writer is not None:
                    writer.send_headers()  # a watch may have nothing to say for a while
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
                return passed

        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        certificates = plane.folder / "certificates"
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust, backlog=1024).start()
            yield f"https://127.0.0.1:{runner.addresses[0][1]}", losses
        finally:
            await runner.cleanup()


async def fairness(peer: Peer, stuck: int, creates: int) -> Numbers:
    """Time single creates, usually and while a neighbour's Messages wait for a dead webhook."""
    found: Numbers = {"usual_p50": None, "beside_p50": None, "beside_ratio": None}
    async with stage.observed(peer) as (plane, api, world):
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NEIGHBOUR}})
        async with (
            peers.running(plane, peer, name="fairness") as process,
            _hanging(plane, api) as hook,
        ):
            await stage.quiet(process)
            usual = await stage.latencies(api, world, creates, "usual")
            path = f"/apis/myorg.dev/v1/namespaces/{_NEIGHBOUR}/messages"
            await stage.create(api, stage.texts(stuck, "막힘"), path)
            asked, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(hook), 60)
            with asked:
                beside = await stage.latencies(api, world, creates, "beside")
            if usual:
                found["usual_p50"] = usual[len(usual) // 2]
            if usual and beside:
                found["beside_p50"] = beside[len(beside) // 2]
                found["beside_ratio"] = beside[len(beside) // 2] / usual[len(usual) // 2]
    return found


@contextlib.asynccontextmanager
async def _hanging(plane: ControlPlane, api: Api) -> AsyncIterator[socket.socket]:
    """Have a webhook for the neighbour's Pods that takes connections and never says a word."""
    certificate = (plane.folder / "certificates" / "apiserver.crt").read_bytes()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        server.setblocking(False)
        hook = {
            "name": "hangs.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.getsockname()[1]}/",
                "caBundle": base64.b64encode(certificate).decode(),
            },
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                 "resources": ["pods"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NEIGHBOUR}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
        }  # fmt: skip
        await api.request("POST", _HOOKS, {"metadata": {"name": "hangs"}, "webhooks": [hook]})
        # Nothing tells when the API server has heard of a webhook: it takes it about a second.
        await asyncio.sleep(2)
        yield server
