"""The simulated kubelet, at an API server that says what the test wants."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from kopf_kit.testing.kubelet import Kubelet
from kopf_kit.testing.requests import Cluster


async def test_t9_a_pod_of_a_megabyte_is_run() -> None:
    meta = {"name": "large", "namespace": "team", "uid": "u", "annotations": {"a": "x" * (1 << 20)}}
    pod = {"kind": "Pod", "metadata": meta, "spec": {}}
    bound = asyncio.Event()

    async def pods(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
        await bound.wait()
        return response

    async def bind(_: web.Request) -> web.Response:
        bound.set()
        return web.json_response({})

    application = web.Application()
    path = "/api/v1/namespaces/team/pods"
    application.add_routes([web.get(path, pods), web.post(f"{path}/large/binding", bind)])
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        plane: Any = SimpleNamespace(server=str(server.make_url("")).rstrip("/"))
        async with Kubelet(Cluster(cast("Any", plane), session), "team").running():
            await asyncio.wait_for(bound.wait(), 30)
