"""A package index on this machine: pypiserver, which serves a folder."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve an index of the packages in a folder; yield its address as pip reads it."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--interface=127.0.0.1", "--disable-fallback")
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("pypi-server"), "run", f"--port={port}"),
                *(*options, "--hash-algo=sha256", folder),
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}/simple/"
        deadline = time.monotonic() + 30
        while not _answers(address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 -- it is ours
            return True
    except OSError:
        return False
