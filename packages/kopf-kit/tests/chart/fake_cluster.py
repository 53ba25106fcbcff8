"""As much of an API server as an operator needs to have something to count.

It remembers nothing and refuses some.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

_WIDGETS = "/apis/acme.example.com/v1"
_RESOURCES = {
    "/api/v1": [("namespaces", "Namespace", False), ("configmaps", "ConfigMap", True)],
    _WIDGETS: [("widgets", "Widget", True)],
}


def _widgets() -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "acme.example.com/v1",
            "kind": "Widget",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"text": name},
        }
        for name in ("hello", "refused")
    ]


async def _read(request: web.Request) -> web.StreamResponse:
    path = request.path
    if path == "/api":
        return web.json_response({"versions": ["v1"]})
    if path == "/apis":
        version = {"groupVersion": "acme.example.com/v1", "version": "v1"}
        group = {"name": "acme.example.com", "versions": [version], "preferredVersion": version}
        return web.json_response({"groups": [group]})
    if path in _RESOURCES:
        verbs = ["get", "list", "watch", "create", "delete", "patch"]
        found = [
            {
                "name": plural,
                "singularName": kind.lower(),
                "kind": kind,
                "namespaced": namespaced,
                "verbs": verbs,
            }
            for plural, kind, namespaced in _RESOURCES[path]
        ]
        return web.json_response({"resources": found})
    if "watch" in request.query:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3600)
        return response
    if path.endswith(("/widgets", "/configmaps")):
        items = _widgets() if path.endswith("/widgets") else []
        return web.json_response({"items": items, "metadata": {"resourceVersion": "1"}})
    return _refusal(404, "NotFound")


async def _write(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    if body.get("metadata", {}).get("name") == "refused":
        return _refusal(403, "Forbidden")
    body.setdefault("metadata", {}).update({"resourceVersion": "2", "uid": "uid-made"})
    return web.json_response(body, status=201 if request.method == "POST" else 200)


def _refusal(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason}, status=code)


@contextlib.contextmanager
def running(kubeconfig: Path) -> Iterator[None]:
    """Serve for a while, and write the kubeconfig that leads here."""
    loop = asyncio.new_event_loop()
    application = web.Application()
    application.router.add_get("/{path:.*}", _read)
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        application.router.add_route(method, "/{path:.*}", _write)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    async def end() -> None:
        await runner.cleanup()
        streams = asyncio.all_tasks() - {asyncio.current_task()}
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    port = loop.run_until_complete(start())
    cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "fake", "context": {"cluster": "fake", "user": "fake"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "fake", "user": {"token": "t"}}],
            }
        )
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(end())
        loop.close()
