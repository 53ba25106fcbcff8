"""Listening sockets for `web` that limit the number of open connections.

A connection takes memory before it sends anything: 300 KiB for TLS. If there are too many, the
oldest one is closed, so a scrape or a probe, which is short, still gets through.
"""

import contextlib
import socket
import weakref
from typing import Any

#: Open connections per socket; as many again may wait to be accepted.
MOST = 32


class Listener(socket.socket):
    """Accepts connections, and closes the oldest one when there are too many."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self._accepted: list[weakref.ref[socket.socket]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; close the oldest one if there are too many."""
        connection, address = super().accept()
        found = [one for reference in self._accepted if (one := reference()) is not None]
        alive = [one for one in found if one.fileno() >= 0]
        if len(alive) >= MOST:
            with contextlib.suppress(OSError):  # it is closed already
                alive.pop(0).shutdown(socket.SHUT_RDWR)
        self._accepted = [weakref.ref(one) for one in (*alive, connection)]
        return connection, address


def listen(host: str, port: int) -> Listener:
    """Listen on an address, or on all if the host is empty; raise `OSError`."""
    if not host and socket.has_dualstack_ipv6():
        server = socket.create_server(
            (host, port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=MOST
        )
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, port), family=family, backlog=MOST)
    return Listener(server.detach())
