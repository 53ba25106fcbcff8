"""`make scan` fails where nothing was looked up."""

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Ignorant(BaseHTTPRequestHandler):
    """A database that knows of no vulnerability, or a proxy in its place."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


def test_a_database_that_knows_nothing_is_no_good_news() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ignorant) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/query"
        ended = subprocess.run(
            ["make", "scan"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PIP_AUDIT_OSV_URL": url, "no_proxy": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        server.shutdown()

    assert ended.returncode != 0
    assert "nothing was looked up" in ended.stderr
