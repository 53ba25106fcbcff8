"""A registry in a process of its own, and a door before it, or an index, that can refuse."""

import http.client
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kopf_kit.rig import registry as oci
from kopf_offline import golang

_NOT_PASSED_ON = {"connection", "keep-alive", "transfer-encoding", "content-length"}


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


class Door(ThreadingHTTPServer):
    """What a client talks to in the place of a registry: it passes on, refuses, or hangs up."""

    daemon_threads = True

    def __init__(self, registry: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = registry
        #: Tells what happens to what is pushed: a manifest by its path, a package by its file.
        self.mood: Callable[[str], str] = lambda _: "serve"

    @property
    def name(self) -> str:
        return f"localhost:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that was killed."""

    @contextmanager
    def open(self) -> Iterator["Door"]:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Door

    def _serve(self) -> None:
        body = self._body()
        pushed = self.path if self.command == "PUT" and "/manifests/" in self.path else ""
        if self.command == "POST" and (file := re.search(rb'filename="([^"]+)"', body)):
            pushed = file[1].decode()
        match self.server.mood(pushed) if pushed else "serve":
            case "hang up":
                self.close_connection = True
            case "refuse":
                self._answer(403, b'{"errors":[{"code":"DENIED","message":"no"}]}', {})
            case _:
                self._pass_on(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _pass_on(self, body: bytes) -> None:
        host, _, port = self.server.registry.partition(":")
        behind = http.client.HTTPConnection(host, int(port), timeout=60)
        behind.request(self.command, self.path, body or None, _kept(self.headers.items()))
        said = behind.getresponse()
        headers = _kept(said.getheaders())
        content = said.read()
        if self.command == "HEAD":
            headers["Content-Length"] = said.getheader("Content-Length") or "0"
        self._answer(said.status, content, headers)
        behind.close()

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _kept(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _NOT_PASSED_ON}


def content(registry: str) -> dict[str, str]:
    """Return the digest of each tag in a registry, by its name."""
    return {
        f"{repository}:{tag}": str(oci.digest(f"{registry}/{repository}:{tag}"))
        for repository in oci.crane("catalog", registry).split()
        for tag in oci.crane("ls", f"{registry}/{repository}").split()
    }
