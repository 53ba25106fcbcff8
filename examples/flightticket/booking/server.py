"""A small booking service: an HTTP server with a database, which can be told to fail.

The operator of examples/flightticket is tried with it; README.md describes its API. Its database is
SQLite: what it has answered survives its end. It needs Python and nothing else.
"""

import argparse
import json
import signal
import sqlite3
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, Any]

_TABLES = """
CREATE TABLE IF NOT EXISTS bookings (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, state TEXT NOT NULL, wanted TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, event TEXT NOT NULL
);
"""
#: No flight goes there.
_UNKNOWN = "Atlantis"
#: The reference of what was cancelled before it was booked.
_NEVER = "never-booked"


class Database:
    """The bookings, each with a key of the client's, and what happened to them."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.executescript(_TABLES)

    def find(self, key: str) -> Answer:
        """Return the booking with this key, if there is one."""
        with self._lock, self._connection:
            found = self._find(key)
            return 200, [found] if found and found["reference"] != _NEVER else []

    def book(self, key: str, wanted: Mapping[str, Any]) -> Answer:
        """Book, or return what was booked with this key."""
        if not key or set(wanted) != {"from", "to", "number"}:
            return 400, "An Idempotency-Key, `from`, `to` and `number` are needed."
        with self._lock, self._connection:
            if found := self._find(key):
                if found["state"] == "cancelled" or all(found[k] == wanted[k] for k in wanted):
                    return 200, found
                return 422, "This Idempotency-Key was used for another booking."
            if _UNKNOWN in (wanted["from"], wanted["to"]):
                return 422, f"There is no airport in {_UNKNOWN}."
            self._put(key, "booked", wanted)
            return 201, self._find(key)

    def cancel(self, key: str) -> Answer:
        """Cancel the booking; without one, refuse all later requests to book for this key."""
        with self._lock, self._connection:
            found = self._find(key)
            if found is None:
                self._put(key, "closed", {})
            elif found["state"] == "booked":
                self._connection.execute("UPDATE bookings SET state='cancelled' WHERE key=?", [key])
                self._happened(key, "cancelled")
            return 204, None

    def change(self, key: str, wanted: Mapping[str, Any]) -> Answer:
        """Change a booking, as somebody at a counter does."""
        with self._lock, self._connection:
            self._connection.execute(
                "UPDATE bookings SET wanted=? WHERE key=?", [json.dumps(wanted), key]
            )
            return 200, self._find(key)

    def events(self) -> Answer:
        """Return all that ever happened, in its order."""
        with self._lock, self._connection:
            rows = self._connection.execute("SELECT key, event FROM events ORDER BY number")
            return 200, [{"key": key, "event": event} for key, event in rows]

    def _find(self, key: str) -> dict[str, Any] | None:
        select = "SELECT number, state, wanted FROM bookings WHERE key=?"
        row = self._connection.execute(select, [key]).fetchone()
        if row is None:
            return None
        number, state, wanted = row
        if state == "closed":
            return {"reference": _NEVER, "state": "cancelled"}
        return {"reference": f"B{number}", "state": state, **json.loads(wanted)}

    def _put(self, key: str, state: str, wanted: Mapping[str, Any]) -> None:
        insert = "INSERT INTO bookings (key, state, wanted) VALUES (?, ?, ?)"
        self._connection.execute(insert, [key, state, json.dumps(wanted)])
        self._happened(key, state)

    def _happened(self, key: str, event: str) -> None:
        self._connection.execute("INSERT INTO events (key, event) VALUES (?, ?)", [key, event])


@dataclass
class Fault:
    """What befalls the next calls of a method, and of a key; an empty one is any."""

    #: `answer` in place of the service, `lose` the answer, or `hold` the call until there are other
    #: faults, and then do what it asks for.
    kind: str
    method: str = ""
    key: str = ""
    times: int = 10**9
    status: int = 500
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    #: Ends what is held.
    over: threading.Event = field(default_factory=threading.Event)


class Faults:
    """The faults that somebody asked for, and the calls that came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._calls: list[dict[str, str]] = []

    def set(self, faults: list[dict[str, Any]]) -> Answer:
        """Put these faults in the place of the former ones, which end."""
        asked = [Fault(**fault) for fault in faults]
        with self._lock:
            for former in self._faults:
                former.over.set()
            self._faults = asked
        return 200, len(asked)

    def meet(self, method: str, key: str) -> Fault | None:
        """Record a call, and return the fault that it meets."""
        with self._lock:
            self._calls.append({"method": method, "key": key})
            for fault in self._faults:
                if fault.times > 0 and fault.method in ("", method) and fault.key in ("", key):
                    fault.times -= 1
                    return fault
        return None

    def calls(self) -> Answer:
        """Return the calls that came, in their order."""
        with self._lock:
            return 200, list(self._calls)


class Service(ThreadingHTTPServer):
    """The server: its database, its faults, and the file with the tokens that it accepts."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], database: Database, tokens: Path) -> None:
        self.database, self.tokens, self.faults = database, tokens, Faults()
        super().__init__(address, Handler)

    def accepts(self, authorization: str) -> bool:
        """Tell whether a header has one of the tokens; they may change while it runs."""
        return authorization in [f"Bearer {t}" for t in self.tokens.read_text().split()]


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other on a connection."""

    protocol_version = "HTTP/1.1"
    timeout = 300
    server: Service

    def do_GET(self) -> None:
        """Answer a request."""
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 (as BaseHTTPRequestHandler wants them)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a request may have a token in it."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            given = json.loads(body or b"null")
            answer = self._of_tests(parts.path, given) or self._of_clients(
                parts.path, parse_qs(parts.query), given
            )
        except (ValueError, TypeError) as error:
            answer = 400, f"The request makes no sense: {error}"
        if answer is not None:
            self._answer(*answer)

    def _of_tests(self, path: str, given: Any) -> Answer | None:
        """Do what a test asks for: it needs no token, and meets no fault."""
        match [self.command, *path.strip("/").split("/")]:
            case ["GET", "healthz"]:
                return 200, "well"
            case ["PUT", "faults"]:
                return self.server.faults.set(given)
            case ["GET", "calls"]:
                return self.server.faults.calls()
            case ["GET", "events"]:
                return self.server.database.events()
            case ["PUT", "bookings", key]:
                return self.server.database.change(key, given)
            case ["DELETE", "counter", key]:
                return self.server.database.cancel(key)
        return None

    def _of_clients(self, path: str, query: dict[str, list[str]], given: Any) -> Answer | None:
        """Return the answer for a client; None if it gets none, or got another one."""
        database, method = self.server.database, self.command
        key = self.headers.get("Idempotency-Key") or query.get("key", [""])[0]
        key = key or path.removeprefix("/bookings").strip("/")
        fault = self.server.faults.meet(method, key)
        if fault is not None and fault.kind == "hold":
            fault.over.wait()
        if fault is not None and fault.kind == "answer":
            self._answer(fault.status, fault.text, fault.headers)
            return None
        answer: Answer = 404, "Here is nothing."
        if not self.server.accepts(self.headers.get("Authorization", "")):
            answer = 401, "This token is not accepted."
        elif (method, path) == ("GET", "/bookings"):
            answer = database.find(key)
        elif (method, path) == ("POST", "/bookings"):
            answer = database.book(key, given)
        elif (method, path) == ("DELETE", f"/bookings/{key}"):
            answer = database.cancel(key)
        if fault is not None and fault.kind == "lose":
            self.close_connection = True
            return None
        return answer

    def _answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        payload = b"" if status == 204 else body.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description="A small booking service.")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 (it is for a container)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--database", default=":memory:", metavar="FILE")
    parser.add_argument("--tokens", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Service(
        (options.host, options.port), Database(options.database), options.tokens
    ) as service:
        print(f"http://{options.host}:{service.server_port}", flush=True)  # noqa: T201
        service.serve_forever()


if __name__ == "__main__":
    main()
