"""A small booking service: an HTTP server with a database, which can be told to fail.

The operator is tried with it; README.md describes its API. Its database is
SQLite, so that what it has answered survives a crash. It needs Python and nothing else.

Clients use one port, with a token. A second port is the counter, where people change and cancel
bookings, and where tests ask for faults. It needs no token and is only for those on the same host:
in a Pod, for those who may use `kubectl port-forward`.
"""

import argparse
import hmac
import json
import re
import signal
import sqlite3
import sys
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
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
#: What a fault may be.
_KINDS = ("answer", "lose", "hold")
#: No flight goes there.
_UNKNOWN = "Atlantis"
_NO_AIRPORT = f"There is no airport in {_UNKNOWN}."
#: The reference of what was cancelled before it was booked.
_NEVER = "never-booked"
_NOTHING: Answer = (404, "Here is nothing.")


class Database:
    """The bookings, each with a key of the client's, and what happened to them."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.executescript(_TABLES)

    def route(self, cities: Sequence[str]) -> Answer:
        """Return whether there are flights between two cities."""
        if _UNKNOWN in cities:
            return 200, {"flown": False, "why": _NO_AIRPORT}
        return 200, {"flown": True}

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
                return 422, _NO_AIRPORT
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
            found = self._find(key)
            return (200, found) if found else (404, "There is no booking with this key.")

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
    over: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        """Raise `ValueError` if there is no such fault."""
        if self.kind not in _KINDS:
            raise ValueError(f"{self.kind!r} is not a kind of fault; use {', '.join(_KINDS)}")


class Faults:
    """The faults that somebody asked for, and the calls that came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._calls: deque[dict[str, str]] = deque(maxlen=100_000)

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


@dataclass(frozen=True)
class Office:
    """What both servers work on."""

    database: Database
    #: The file with the tokens that are accepted, each a word; it may change at any time.
    tokens: Path
    faults: Faults = field(default_factory=Faults)

    def accepts(self, authorization: str) -> bool:
        """Tell whether a header has one of the tokens; raise `OSError` if they cannot be read."""
        given = authorization.encode("latin-1")  # as http.server decoded it
        tokens = self.tokens.read_bytes().split()
        return any(hmac.compare_digest(b"Bearer " + token, given) for token in tokens)


class Server(ThreadingHTTPServer):
    """Serves one port."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: "type[Handler]", office: Office) -> None:
        self.office = office
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of an error, unless a client has only hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other on a connection."""

    protocol_version = "HTTP/1.1"
    timeout = 300
    server: Server
    #: Bytes that a request's body may have.
    most: int

    def do_GET(self) -> None:
        """Answer a request."""
        parts = urlsplit(self.path)
        try:
            given = json.loads(self._body() or b"null")
            answer = self._reply(parts.path, parse_qs(parts.query), given)
        except (ValueError, TypeError, RecursionError) as error:
            answer = 400, f"The request makes no sense: {error}"
        except sqlite3.Error as error:
            answer = 500, f"The database failed: {error}"
        if answer is not None:
            self._answer(*answer)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 (as BaseHTTPRequestHandler wants them)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a request may have a token in it."""

    def _body(self) -> bytes:
        """Read the body; raise `ValueError` if it has no length, or more bytes than it may have."""
        length = self.headers.get("Content-Length") or "0"
        is_told = "Transfer-Encoding" not in self.headers and re.fullmatch("[0-9]{1,9}", length)
        if not is_told or int(length) > self.most:
            self.close_connection = True  # where the next request begins is not known
            raise ValueError(f"its body needs a Content-Length of at most {self.most}")
        return self.rfile.read(int(length))

    @abstractmethod
    def _reply(self, path: str, query: dict[str, list[str]], given: Any) -> Answer | None:
        """Return the answer to send; None to send nothing more."""

    def _answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        payload = b"" if status == 204 else body.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(payload)


class Counter(Handler):
    """Does what people at the counter and tests ask for: it meets no fault."""

    most = 2**20

    def _reply(self, path: str, query: dict[str, list[str]], given: Any) -> Answer | None:
        database, faults = self.server.office.database, self.server.office.faults
        match [self.command, *path.strip("/").split("/")]:
            case ["PUT", "faults"]:
                return faults.set(given)
            case ["GET", "calls"]:
                return faults.calls()
            case ["GET", "events"]:
                return database.events()
            case ["PUT", "bookings", key]:
                return database.change(key, given)
            case ["DELETE", "bookings", key]:
                return database.cancel(key)
        return _NOTHING


class Clients(Handler):
    """Answers those who have a token; who has none is not recorded and meets no fault."""

    most = 2**16

    def _reply(self, path: str, query: dict[str, list[str]], given: Any) -> Answer | None:
        office, method = self.server.office, self.command
        if (method, path) == ("GET", "/healthz"):
            return 200, "well"
        try:
            if not office.accepts(self.headers.get("Authorization", "")):
                return 401, "This token is not accepted."
        except OSError as error:
            return 503, f"The tokens cannot be read: {error.strerror}"
        key = self.headers.get("Idempotency-Key") or query.get("key", [""])[0]
        key = key or path.removeprefix("/bookings").strip("/")
        fault = office.faults.meet(method, key)
        if fault is not None and fault.kind == "hold":
            fault.over.wait()
        if fault is not None and fault.kind == "answer":
            self._answer(fault.status, fault.text, fault.headers)
            return None
        answer = _NOTHING
        if (method, path) == ("GET", "/routes"):
            answer = office.database.route([*query.get("from", []), *query.get("to", [])])
        elif (method, path) == ("GET", "/bookings"):
            answer = office.database.find(key)
        elif (method, path) == ("POST", "/bookings"):
            answer = office.database.book(key, given)
        elif (method, path) == ("DELETE", f"/bookings/{key}"):
            answer = office.database.cancel(key)
        if fault is not None and fault.kind == "lose":
            self.close_connection = True
            return None
        return answer


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description="A small booking service.")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 (it is for a container)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--counter-host", default="127.0.0.1")
    parser.add_argument("--counter-port", type=int, default=8081)
    parser.add_argument("--database", default=":memory:", metavar="FILE")
    parser.add_argument("--tokens", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    office = Office(Database(options.database), options.tokens)
    with (
        Server((options.host, options.port), Clients, office) as clients,
        Server((options.counter_host, options.counter_port), Counter, office) as counter,
    ):
        desk = f"http://{options.counter_host}:{counter.server_port}"
        print(f"http://{options.host}:{clients.server_port}", desk, flush=True)
        threading.Thread(target=counter.serve_forever, daemon=True).start()
        clients.serve_forever()


if __name__ == "__main__":
    main()
