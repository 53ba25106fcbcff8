"""The floor: the same writes, from a client that knows them all beforehand and watches nothing.

``python -m bench.floor SERVER FILE``, started by ``measures.floor``: the file has a list of writes
for each Message. Says "ready", begins at a line on stdin, and ends when all is written.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bench.api import MERGE_PATCH, Api

CONNECTIONS = 32


Write = tuple[str, str, dict[str, Any]]  # (method, path, body)


async def main(server: str, plan: list[list[Write]]) -> None:
    """Make the writes, a Message at a time on each connection."""
    async with Api(server, "floor", CONNECTIONS) as api:

        async def work(writes: list[Write]) -> None:
            for method, path, body in writes:
                kind = MERGE_PATCH if method == "PATCH" else "application/json"
                await api.request(method, path, body, kind)

        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        await api.each(plan, work)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
