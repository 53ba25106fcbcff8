"""What traces cost: a backlog without them and with them, and the runtime's hooks without them.

Used by `run`. The image has no OpenTelemetry, so the traced operator gets it from here.
"""

import contextlib
import os
import shutil
import sysconfig
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
from aiohttp import web

from bench import peers, shipped, stage
from bench.peers import OURS
from bench.stage import Numbers
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, output
from kopf_kit.testing.process import free_port

#: What each reconcile does for traces, as often as it takes to measure it: its CPU time in seconds.
_HOOKS = """
import time
from kopf_runtime.cluster import tracing
began = time.process_time()
for _ in range(100_000):
    with tracing.span("reconcile messages", {f"reconcile.{each}": each for each in "abc"}):
        tracing.note("reconcile.reason", "Running")
        tracing.note("reconcile.result", "success")
print((time.process_time() - began) / 100_000)
"""


async def traces(count: int) -> Numbers:
    """Measure the CPU of a backlog with traces, and of the hooks while they are off, as ratios."""
    async with _collector() as (url, received):
        cpu, reconciles = await _backlog(count, {})
        path = shipped.environment(_packages())["PYTHONPATH"]
        more = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "PYTHONPATH": path}
        traced, _ = await _backlog(count, more)
    if not received:
        raise KitError("the collector has received no traces")
    hooks = float(output([*shipped.python(), "-c", _HOOKS], env=os.environ | shipped.environment()))
    return {"traced_cpu": traced / cpu, "untraced_cpu": hooks * reconciles / cpu}


def _packages() -> Path:
    """Return a folder with what the extra installs, and nothing else of this environment."""
    folder = paths.BUILD / "bench" / "otel"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = ("opentelemetry", "google", "requests", "urllib3", "certifi", "charset_normalizer")
    for name in names:
        for each in Path(sysconfig.get_path("purelib")).glob(f"{name}*"):
            (folder / each.name).symlink_to(each)
    return folder


async def _backlog(count: int, env: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU time of a backlog, in seconds, and the number of reconciles."""
    async with stage.observed() as (plane, api, world):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        world.want(texts)
        port = free_port()
        flags = (f"--metrics-bind-address=127.0.0.1:{port}", "--health-probe-bind-address=0")
        async with peers.running(plane, OURS, *flags, name="traces", env=env) as process:
            if not await world.until_right(stage.PATIENCE):
                raise KitError(f"the backlog of {count} Messages never ended")
            await stage.quiet(process)
            used = process.cpu()
            async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as answer:
                text = await answer.text()
    named = "controller_runtime_reconcile_total{"
    return used, sum(float(line.split()[1]) for line in text.splitlines() if line.startswith(named))


@contextlib.asynccontextmanager
async def _collector() -> AsyncIterator[tuple[str, list[int]]]:
    """Run what receives traces; yield its address, and the sizes of what it received."""
    received: list[int] = []

    async def receive(request: web.Request) -> web.Response:
        received.append(len(await request.read()))
        return web.Response()

    application = web.Application(client_max_size=2**26)
    application.router.add_post("/v1/traces", receive)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", received
    finally:
        await runner.cleanup()
