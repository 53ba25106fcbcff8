"""HTTP proxies: which one the environment names for a server, and a tunnel through it."""

import asyncio
import base64
import ipaddress
import os
import ssl
from urllib.parse import SplitResult, unquote

from kopf_runtime.cluster.tls import as_in_go

_PORTS = {"http": 80, "https": 443}
#: Bytes of a proxy's answer at most.
_HEAD = 64 * 1024


def address(url: SplitResult) -> tuple[str, int]:
    """Return the host and the port of a URL; raise `ValueError` without a host."""
    if not url.hostname:
        raise ValueError(f"{url.geturl()} names no host")
    return url.hostname, url.port or _PORTS.get(url.scheme, 443)


def of_environment(server: SplitResult) -> str | None:
    """Return the URL of the proxy for a server, as Go's clients read it: HTTPS_PROXY, NO_PROXY.

    NO_PROXY may also list networks such as 10.0.0.0/8, which Python itself does not read; OpenShift
    lists a cluster's own so.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import urllib.request  # with half of the standard library's network

    named = urllib.request.getproxies()
    host, _ = address(server)
    proxy = named.get(server.scheme)
    if not proxy or host == "localhost" or urllib.request.proxy_bypass(host):
        return None
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return proxy
    networks = (_network(part.strip()) for part in named.get("no", "").split(","))
    direct = ip.is_loopback or any(network and ip in network for network in networks)
    return None if direct else proxy


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def authorization(proxy: SplitResult) -> str:
    """Return the line that says to a proxy who asks; empty if its URL has no user."""
    if proxy.username is None:
        return ""
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}\r\n"


def trust(proxy: SplitResult) -> ssl.SSLContext | None:
    """Return the TLS context of connections to a proxy, None if they have no TLS."""
    return as_in_go(ssl.create_default_context()) if proxy.scheme == "https" else None


async def tunnel(
    proxy: SplitResult, host: str, port: int, tls: ssl.SSLContext, protocol: asyncio.Protocol
) -> None:
    """Connect a protocol by TLS to a server behind a proxy; raise `OSError` if it is refused."""
    loop, asking = asyncio.get_running_loop(), _Asking()
    own, own_port = address(proxy)
    outer, _ = await loop.create_connection(lambda: asking, own, own_port, ssl=trust(proxy))
    try:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{authorization(proxy)}\r\n"
        outer.write(lines.encode())
        await asking.granted
        inner = await loop.start_tls(outer, protocol, tls, server_hostname=host)
        if inner is None:
            raise ConnectionResetError("the proxy ended the connection")
    except BaseException:
        outer.abort()
        raise
    protocol.connection_made(inner)


class _Asking(asyncio.Protocol):
    """Waits for a proxy's answer."""

    def __init__(self) -> None:
        self.granted = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        """Read the answer: 200, or a refusal."""
        self._head += data
        first = self._head.partition(b"\r\n")[0].decode("latin-1")
        if self.granted.done():
            return
        if b"\r\n\r\n" in self._head and first.split(" ")[1:2] == ["200"]:
            self.granted.set_result(None)
        elif b"\r\n\r\n" in self._head or len(self._head) > _HEAD:
            self.granted.set_exception(OSError(f"the proxy refuses: {first[:200]}"))

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        if not self.granted.done():
            self.granted.set_exception(OSError(f"the proxy ended the connection: {error or ''}"))
