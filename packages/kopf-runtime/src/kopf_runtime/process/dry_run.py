"""Prints what one pass over all objects would change, and writes nothing: `--dry-run`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import kopf

from kopf_runtime.cluster import credentials
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring import errors
from kopf_runtime.declaring.settings import Program, Settings
from kopf_runtime.process.runtime import Runtime
from kopf_runtime.reporting import logs
from kopf_runtime.reporting.events import Deps, Recorder
from kopf_runtime.reporting.troubles import StepError

#: Returns the runtimes of all controllers; raises `DeclarationError`.
Build = Callable[[Deps], Sequence[Runtime]]


async def run(
    program: Program,
    settings: Settings,
    metrics: Metrics,
    build: Build,
    adapt: Callable[[Client, Any], Awaitable[Any]],
) -> int:
    """Print the differences; return the exit code: 1 if there are any, 2 if something failed."""
    client = Client(program.name, program.version, settings.request_timeout, metrics)
    client.may_write = lambda: False
    differs = False
    try:
        deps = Deps(client, metrics, Recorder(client, settings.identity, metrics), settings)
        runtimes = build(deps)
        client.open(credentials.Credentials(await asyncio.to_thread(credentials.find)))
        deps.settings = await adapt(client, settings)
        failed, differs = await _compare(runtimes, settings)
    except (errors.DeclarationError, errors.ApiError, kopf.LoginError) as error:
        failed = [str(error)]
    finally:
        await client.close()
    for text in failed:
        print(f"{program.name}: {logs.escape(text)}", file=sys.stderr)  # noqa: T201
    return 2 if failed else int(differs)


async def _compare(runtimes: Sequence[Runtime], settings: Settings) -> tuple[list[str], bool]:
    """Print the differences; return what failed, and whether there are any."""
    watching = [
        asyncio.ensure_future(reflecting)
        for runtime in runtimes
        for namespace in settings.namespaces or (None,)
        for reflecting in runtime.reflect(namespace)
    ]
    try:
        failed: list[str] = []
        for runtime in runtimes:
            failed += await runtime.caches.first_lists()
        differ = [await _print(runtime, failed) for runtime in runtimes]
        return failed, any(differ)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for runtime in runtimes:
            await runtime.close()


async def _print(runtime: Runtime, failed: list[str]) -> bool:
    """Print the differences of a kind; return whether there are any, and add what failed."""
    differs = False
    for key in sorted(runtime.caches.keys()):
        name = f"{runtime.kind.kind} {'/'.join(filter(None, key))}"
        try:
            texts = await runtime.differences(key)
        except StepError as error:
            if error.outcome.waits:  # a reconcile would do nothing
                print(logs.escape(f"# {name}: waits: {error}"))  # noqa: T201
            else:
                failed.append(f"{name}: {error}")
            continue
        except Exception as error:
            failed.append(f"{name}: {error}")
            continue
        differs = differs or bool(texts)
        print("".join(texts), end="")  # noqa: T201
    return differs
