"""Runs kopf in place of `python3 -m kopf`, with a server for the webhooks of its handlers."""

import asyncio
import importlib
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import kopf.cli
from aiohttp import web

# The handlers, by the path at which the API server asks them.
HANDLERS: dict[str, dict[str, str]] = {}
# The folder with the certificate; without any, nobody asks.
FOLDER = os.environ.get("KOPF_WEBHOOK_CERTIFICATE")

# What the operator itself registers comes first, so that its server is not the last to be set.
for at, word in enumerate(sys.argv):
    if word == "-m":
        importlib.import_module(sys.argv[at + 1])


def answering(ask: Any, handler: dict[str, str]) -> Callable[[web.Request], Awaitable[Any]]:
    """Return what has kopf call a handler."""

    async def answer(request: web.Request) -> web.Response:
        review, headers = await request.json(), dict(request.headers)
        return web.json_response(await ask(review, headers=headers, **handler))

    return answer


async def serve(ask: Any) -> AsyncIterator[Any]:
    """Serve until the operator ends, with the certificate as it is at each minute."""
    yield {}
    if FOLDER is None:
        await asyncio.Event().wait()
    pair = f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    # A review has the object twice, and each may have more than a mebibyte.
    app = web.Application(client_max_size=2**23)
    for path, handler in HANDLERS.items():
        app.router.add_post(path, answering(ask, handler))
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        port = int(os.environ["KOPF_WEBHOOK_PORT"])
        await web.TCPSite(runner, port=port, ssl_context=context).start()
        while True:
            await asyncio.sleep(60)
            context.load_cert_chain(*pair)
    finally:
        await runner.cleanup()


@kopf.on.startup()
def set_server(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Set the server, and leave the webhook configurations to the chart or to OLM."""
    settings.admission.managed, settings.admission.server = None, serve


kopf.cli.main()
