"""The floor: measures a bare client that makes the same writes as our operator.

Used by `run`; `floor` is the client.
"""

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator

from bench import shipped, stage
from bench.api import MESSAGES, PODS
from bench.floor import Raw, Write, creates
from bench.stage import Numbers
from kopf_kit.rig import paths
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.rig.run import output


async def floor(count: int) -> Numbers:
    """Measure the client's time for a backlog, then for an edit of every Message."""
    found: Numbers = {"start_cpu": _imports()}
    async with stage.observed() as (plane, api, world):
        texts = stage.texts(count, "안녕")
        await stage.create(api, texts)
        listed = (await api.request("GET", MESSAGES))["items"]
        async with _client(plane, [creates(raw) for raw in listed]) as client:
            world.want(texts)
            began = time.monotonic()
            found["backlog_cpu"] = await client.go()
            done = await world.until_right(stage.PATIENCE)
            found["backlog_pod"] = None if world.podless else world.last_pod - began
            found["backlog_status"] = world.last_status - began if done else None

        texts = stage.texts(count, "새 글")
        edited = [_edited(raw, texts[raw["metadata"]["name"]]) for raw in listed]
        async with _client(plane, [_replaces(raw) for raw in edited]) as client:
            world.want(texts)
            began = time.monotonic()
            found["edit_cpu"], _ = await asyncio.gather(client.go(), stage.edit(api, texts))
            done = await world.until_right(stage.PATIENCE)
            found["edit_pod"] = None if world.podless else world.last_pod - began
            found["edit_status"] = world.last_status - began if done else None
    return found


def _imports() -> float:
    """Return the CPU time of a start that only imports what any client in Python needs."""
    code = "import asyncio, httptools, msgspec, ssl, yaml, time; print(time.process_time())"
    return float(output([*shipped.python(), "-c", code], env=shipped.environment(), timeout=60))


class _Client:
    """The client's process, which waits for a signal to begin."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def go(self) -> float:
        """Let it begin, and wait until it has written everything; return its CPU time."""
        said, _ = await asyncio.wait_for(self._process.communicate(b"go\n"), stage.PATIENCE)
        return float(said)


@contextlib.asynccontextmanager
async def _client(plane: ControlPlane, plan: list[list[Write]]) -> AsyncIterator[_Client]:
    """Run a client with a plan, ready to begin: its start does not count."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            *shipped.python(),
            "-m",
            "bench.floor",
            plane.server,
            file.name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **shipped.environment(paths.CHECKOUT)},
        )
        assert process.stdout is not None
        try:
            await asyncio.wait_for(process.stdout.readline(), 60)
            yield _Client(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _edited(raw: Raw, text: str) -> Raw:
    """Return a Message as it is after an edit."""
    meta = raw["metadata"]
    return {
        **raw,
        "metadata": {**meta, "generation": meta["generation"] + 1},
        "spec": {**raw["spec"], "text": text},
    }


def _replaces(raw: Raw) -> list[Write]:
    """Return the writes for an edited Message."""
    create, *rest = creates(raw)
    name = create[2]["metadata"]["name"]
    return [("DELETE", f"{PODS}/{name}", {}), create, *rest]
