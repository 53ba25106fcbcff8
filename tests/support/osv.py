"""A stand-in for the database of vulnerabilities that `make scan` asks."""

import contextlib
import json
import threading
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Package = tuple[str, str]


@contextlib.contextmanager
def database(vulnerable: Collection[Package], status: int = 200) -> Iterator[str]:
    """Yield the URL of one that knows of these packages, and answers with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            package = (query["package"]["name"], query["version"])
            body = json.dumps(advisories(package) if package in vulnerable else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the tests' output short."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def advisories(package: Package) -> Any:
    """Return what is said of a vulnerable package: https://ossf.github.io/osv-schema/."""
    name = package[0]
    events = [{"introduced": "0"}, {"fixed": "99.0"}]
    affected = {
        "package": {"name": name, "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    return {"vulns": [{"id": f"GHSA-of-{name}", "summary": "It can", "affected": [affected]}]}
