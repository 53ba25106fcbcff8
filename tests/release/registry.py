"""A registry, and an index of packages, each in a process of its own."""

import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kopf_kit.rig import registry as oci
from kopf_offline import golang


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve an empty registry; yield its host and port."""
    folder.mkdir()
    process = subprocess.Popen(
        [golang.program("crane"), "registry", "serve", "--address=127.0.0.1:0", f"--disk={folder}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        port = next(
            match[1]
            for line in process.stderr
            if (match := re.search(r"serving on port (\d+)", line))
        )
        # Its log is long, and a full pipe would stop it.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def content(registry: str) -> dict[str, str]:
    """Return the digest of each tag in a registry, by its name."""
    return {
        f"{repository}:{tag}": str(oci.digest(f"{registry}/{repository}:{tag}"))
        for repository in oci.crane("catalog", registry).split()
        for tag in oci.crane("ls", f"{registry}/{repository}").split()
    }


@contextmanager
def serving_index(folder: Path) -> Iterator[str]:
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
