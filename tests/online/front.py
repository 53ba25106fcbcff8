"""A public registry's front door: TLS under the public names, and moods of its own.

`python3 front.py FOLDER BACKEND NAME…` in a container: passes on what it is asked to the registry
at BACKEND, and prints each path. `FOLDER/mood` says how it behaves: `serves`; `limits`, with 429;
`lies`, with a certificate that nobody trusts. The one to trust is `FOLDER/trusted.pem`.
"""

import http.client
import json
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

FOLDER, BACKEND, NAMES = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
LIMIT = "You have reached your unauthenticated pull rate limit."


def context(name: str) -> ssl.SSLContext:
    """Make a certificate for all names."""
    key, certificate = FOLDER / f"{name}.key", FOLDER / f"{name}.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2"),
            *("-keyout", key, "-out", certificate, "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES)),
        ],
        check=True,
        capture_output=True,
    )
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    return made


TRUSTED, UNTRUSTED = context("trusted"), context("untrusted")


def mood() -> str:
    """Return how the front behaves at present."""
    return (FOLDER / "mood").read_text().strip()


class Handler(BaseHTTPRequestHandler):
    """Passes on a request, or refuses it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request for content, or, as HEAD, for its headers."""
        if mood() == "limits" and "/manifests/" in self.path:
            error = {"errors": [{"code": "TOOMANYREQUESTS", "message": LIMIT}]}
            content = json.dumps(error).encode()
            self._begin(429, {"Content-Type": "application/json"}, len(content))
            self.wfile.write(content)
            return
        passed = {name: self.headers.get_all(name, []) for name in ("Accept", "Range")}
        headers = {name: ", ".join(values) for name, values in passed.items() if values}
        backend = http.client.HTTPConnection(BACKEND, timeout=60)
        backend.request(self.command, self.path, headers=headers)
        answer = backend.getresponse()
        size = int(answer.headers.get("Content-Length") or 0)
        self._begin(answer.status, dict(answer.headers), size)
        if self.command == "GET":
            while piece := answer.read(1 << 20):
                self.wfile.write(piece)
        backend.close()

    def do_HEAD(self) -> None:
        """Answer with the headers alone."""
        self.do_GET()

    def _begin(self, status: int, headers: dict[str, str], size: int) -> None:
        self.send_response(status)
        kept = ("Content-Type", "Docker-Content-Digest", "Docker-Distribution-Api-Version")
        for name in kept:
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, _form: str, *_: object) -> None:
        """Print what was asked for."""
        print(self.headers["Host"], self.path, flush=True)  # noqa: T201


class Front(ThreadingHTTPServer):
    """Chooses a certificate for each connection, in its thread."""

    daemon_threads = True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        chosen = UNTRUSTED if mood() == "lies" else TRUSTED
        plain: socket = request
        try:
            with chosen.wrap_socket(plain, server_side=True) as secure:
                Handler(secure, client_address, self)
        except OSError as error:  # the other side does not trust us, or has gone
            print(f"connection ended: {error}", flush=True)  # noqa: T201


if __name__ == "__main__":
    Front(("", 443), Handler).serve_forever()
