"""The floor: a client that makes the same writes, but knows all in advance and watches nothing.

`bare.floor` starts it as `python -m bench.floor SERVER FILE`; the file contains a list of writes
for each Message. It prints "ready", begins when it reads a line, and ends when all is written.
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
    """Make the writes, one Message at a time per connection."""
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
