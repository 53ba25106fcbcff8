"""Clients of an EtcdCluster, in a Pod: `python3 clients.py CLUSTER`.

They write and read through its Service until a `stop` (`python3 clients.py CLUSTER stop`), and then
print what they have seen. `put KEY VALUE`, `get KEY` and `metrics` are one call each.
"""

import asyncio
import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp
from history import Clients, wrong  # type: ignore[import-not-found]

STOP = Path("/tmp/stop")  # noqa: S108


async def main(cluster: str, *command: str) -> Any:
    """Carry out one command."""
    service = f"http://{cluster}-client:2379"
    async with aiohttp.ClientSession() as session:
        clients = Clients(session, lambda: service)
        match command:
            case ["put", key, value]:
                return await clients.ask(
                    f"{service}/v3/kv/put", {"key": _b64(key), "value": _b64(value)}
                )
            case ["get", key]:
                answer = await clients.ask(f"{service}/v3/kv/range", {"key": _b64(key)})
                values = [base64.b64decode(kv["value"]).decode() for kv in answer.get("kvs", ())]
                return {"value": values[0] if values else None, **answer}
            case ["metrics"]:
                async with session.get(f"http://{cluster}:2381/metrics") as response:
                    return {"text": await response.text()}
            case ["stop"]:
                STOP.touch()  # noqa: ASYNC240
                return {}
        clients.start()
        while not STOP.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.2)
        await clients.stop()
        members = {entry[4][0] for entry in socket.getaddrinfo(cluster, 2379)}
        histories = [await clients.history(f"http://{address}:2379") for address in members]
        return {
            "acknowledged": clients.acknowledged,
            "longest": clients.longest,
            "members": len(members),
            "differ": any(history != histories[0] for history in histories),
            "wrong": wrong(clients.operations, histories[0]),
        }


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))), flush=True)
    while len(sys.argv) == 2:
        asyncio.run(asyncio.sleep(3600))
