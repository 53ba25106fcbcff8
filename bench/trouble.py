"""The measurements in trouble: lost and late answers, and a neighbour's hanging webhook.

Used by `run`. The trouble is the same for all peers.
"""

import asyncio
import base64
import contextlib
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
from aiohttp import web

from bench import peers, stage
from bench.api import Api
from bench.peers import Peer
from bench.stage import Numbers
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import KitError

#: One in this many answers to writes is lost.
ONE_OF = 100
#: How many seconds late the answers are, which is the usual limit of a request.
LATE = 10.0
#: The seconds of rest after the edits, with several resyncs, and the timeout of the edits.
_REST, _RESYNC, _LATE_PATIENCE = 45.0, "--resync-period=15", 900.0
#: The Messages of a namespace then.
_EACH = 4
#: Waits, and returns whether an answer to this request is lost.
_Spoils = Callable[[web.Request], Awaitable[bool]]
_NEIGHBOUR = "neighbour"
_NAMESPACES = "/api/v1/namespaces"
_HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_HEADERS = ("Authorization", "Content-Type", "User-Agent", "Accept")


async def lost(peer: Peer, count: int) -> Numbers:
    """Measure the time of a backlog while one in a hundred answers to writes is lost."""
    losses = 0
    dice = random.Random(1)  # noqa: S311 (the same losses for all peers)

    async def loses(request: web.Request) -> bool:
        nonlocal losses
        unlucky = request.method != "GET" and dice.randrange(ONE_OF) == 0
        losses += unlucky
        return unlucky

    async with stage.observed(peer) as (plane, api, world), _spoiling(plane, loses) as server:
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        world.want(texts)
        async with peers.running(plane, peer, name="lost", server=server) as process:
            done = await world.until_right(stage.PATIENCE)
            return {
                "lost_pod": None if world.podless else world.last_pod - process.started,
                "lost_status": world.last_status - process.started if done else None,
                "lost_answers": float(losses),
            }


async def late(peer: Peer, count: int) -> Numbers:
    """Measure the CPU of edits and a rest while all answers are late, relative to usual.

    The Messages are in many namespaces: few reconciles of one that is slow run at once.
    """
    delay = 0.0

    async def delays(_: web.Request) -> bool:
        await asyncio.sleep(delay)
        return False

    async with stage.observed(peer) as (plane, api, world), _spoiling(plane, delays) as server:
        texts = stage.texts(count, "안녕")
        await stage.spread(api, texts, _EACH)
        world.want(texts)
        async with peers.running(plane, peer, _RESYNC, name="late", server=server) as process:

            async def work(say: str) -> tuple[float, float]:
                texts = stage.texts(count, say)
                world.want(texts)
                began, used = time.monotonic(), process.cpu()
                for name, text in texts.items():
                    path = f"{stage.spread_path(name, _EACH)}/{name}"
                    await api.patch(path, {"spec": {"text": text}})
                if not await world.until_right(_LATE_PATIENCE):
                    raise KitError(f"{len(world.podless | world.untold)} Messages are not right")
                took = time.monotonic() - began
                await asyncio.sleep(_REST)
                return process.cpu() - used, took

            await world.until_right(stage.PATIENCE)
            await stage.quiet(process)
            usual, _ = await work("새 글")
            delay = LATE
            slowly, took = await work("늦은 글")
    return {
        "late_ratio": slowly / usual,
        "late_usual_cpu": usual,
        "late_cpu": slowly,
        "late_status": took,
    }


@contextlib.asynccontextmanager
async def _spoiling(plane: ControlPlane, spoils: _Spoils) -> AsyncIterator[str]:
    """Run a proxy that forwards every request, and spoils some answers; yield its address."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=False),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await forward(request)
            except (aiohttp.ClientError, ConnectionError):  # client or server is gone
                return web.Response(status=502)

        async def forward(request: web.Request) -> web.StreamResponse:
            headers = {key: request.headers[key] for key in _HEADERS if key in request.headers}
            async with session.request(
                request.method,
                plane.server + request.path_qs,
                headers=headers,
                data=await request.read() or None,
            ) as answer:
                if await spoils(request):
                    if request.transport is not None:
                        request.transport.abort()
                    return web.Response()
                passed = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.content_type}
                )
                writer = await passed.prepare(request)
                if writer is not None:
                    writer.send_headers()  # a watch may send nothing for a while
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
                return passed

        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(
            plane.certificates / "apiserver.crt", plane.certificates / "apiserver.key"
        )
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust, backlog=1024).start()
            yield f"https://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def fairness(peer: Peer, stuck: int, creates: int) -> Numbers:
    """Measure single creates, as usual and while Messages elsewhere wait for a hanging webhook."""
    found: Numbers = {"usual_p50": None, "beside_p50": None, "beside_ratio": None}
    async with stage.observed(peer) as (plane, api, world):
        await api.request("POST", _NAMESPACES, {"metadata": {"name": _NEIGHBOUR}})
        async with (
            peers.running(plane, peer, name="fairness") as process,
            _hanging(plane, api) as hook,
        ):
            await stage.quiet(process)
            usual = await stage.latencies(api, world, creates, "usual")
            path = f"{stage.NAMESPACES_OF_MESSAGES}/{_NEIGHBOUR}/messages"
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
    """Run a webhook for the neighbour's Pods that accepts connections and never answers."""
    certificate = (plane.certificates / "apiserver.crt").read_bytes()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        server.setblocking(False)
        hook = {
            "name": "hangs.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.getsockname()[1]}/",
                "caBundle": base64.b64encode(certificate).decode(),
            },
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NEIGHBOUR}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
        }
        await api.request("POST", _HOOKS, {"metadata": {"name": "hangs"}, "webhooks": [hook]})
        # Nothing reports when the API server has loaded a webhook; it takes about a second.
        await asyncio.sleep(2)
        yield server
