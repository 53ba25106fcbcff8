"""A Prometheus that runs for a while, and the programs that it scrapes."""

import contextlib
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kopf_kit.testing.process import free_port
from kopf_offline import prometheus


@contextlib.contextmanager
def process(log: Path, *command: str | Path, **env: str) -> Iterator[None]:
    """Run a program for a while; show what it printed where the block fails."""
    with log.open("wb") as file:
        started = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | env
        )
        try:
            yield
        except BaseException as error:
            error.add_note(log.read_text()[-3000:])
            raise
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **query: str) -> Any:
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=5) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[Any]:
        """Return what an expression gives now."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def wait_for(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression gives anything."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                if self.query(expression):
                    return
            assert time.monotonic() < end, f"{expression} gives nothing"
            time.sleep(0.2)


@contextlib.contextmanager
def running(folder: Path, config: dict[str, Any]) -> Iterator[Prometheus]:
    """Run a Prometheus with this configuration, its files in that folder."""
    port = free_port()
    file = folder / "prometheus.yaml"
    file.write_text(json.dumps(config))
    command = (
        *(prometheus.path("prometheus"), f"--config.file={file}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"),
    )
    with process(folder / "prometheus.log", *command):
        yield Prometheus(port)
