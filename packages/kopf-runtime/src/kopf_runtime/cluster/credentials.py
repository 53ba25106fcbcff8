"""The API server's address and this process's credentials, which are kept up to date.

Used by `client` for the runtime's own session, and by `manager` for kopf's.
"""

import asyncio
import dataclasses
import hashlib
import importlib.util
import logging
import os
import ssl
import time
from pathlib import Path
from typing import Any

import kopf

from kopf_runtime.cluster.tls import as_in_go

logger = logging.getLogger(__name__)

TOKEN_AGE = 60.0  # seconds; the kubelet rotates a token at 80% of its hour or more
UNAUTHORIZED = 1.0  # minimum number of seconds between two reads of the credentials after a 401
#: Where a kubeconfig names a program that fetches a user's credentials.
_PLUGIN = {"exec", "auth-provider"}


def find() -> kopf.ConnectionInfo:
    """Return how to reach the cluster: from the service account, or else from the kubeconfig.

    If the Kubernetes client package is installed (on a developer's machine, never in the image),
    it reads the kubeconfig, because it supports the cloud providers' exec plugins.
    Raise `kopf.LoginError` with a message that says what to do.
    """
    arguments: dict[str, Any] = {"settings": kopf.OperatorSettings(), "logger": logger}
    info = kopf.login_with_service_account(**arguments)
    if info is not None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        host = f"[{host}]" if ":" in host else host
        return dataclasses.replace(info, server=f"https://{host}:{port}")  # needs no DNS
    source = os.environ.get("KUBECONFIG") or "~/.kube/config"
    named = [Path(path.strip()).expanduser() for path in source.split(os.pathsep) if path.strip()]
    files = [file for file in named if file.exists()]
    if not files:
        raise kopf.LoginError(
            f"no cluster: this process is not in a Pod, and there is no kubeconfig at {source}; "
            "create a cluster, for example with kind, or set KUBECONFIG"
        )
    if len(files) < len(named):  # kubectl skips the missing ones; kopf does not
        os.environ["KUBECONFIG"] = os.pathsep.join(map(str, files))
    try:
        if importlib.util.find_spec("kubernetes"):
            info = kopf.login_via_client(**arguments)
        else:
            info = kopf.login_with_kubeconfig(**arguments)
            if not _authenticates(info) and _PLUGIN & _user(files).keys():
                raise kopf.LoginError(
                    "a plugin fetches the credentials; install the package `kubernetes` to run it"
                )
    except Exception as error:
        raise kopf.LoginError(f"cannot use the kubeconfig {source}: {error}") from error
    if info is None or not info.server:
        raise kopf.LoginError(f"cannot use the kubeconfig {source}: it names no server")
    return info


def _authenticates(info: kopf.ConnectionInfo | None) -> bool:
    given = ("token", "username", "certificate_path", "certificate_data")
    return any(getattr(info, name, None) for name in given)


def _user(files: list[Path]) -> dict[str, Any]:
    """Return the user of the current context; of what has the same name, the first counts."""
    import yaml  # a Pod has no kubeconfig

    configs = [yaml.safe_load(file.read_text()) or {} for file in files]
    current = next(config["current-context"] for config in configs if "current-context" in config)

    def named(part: str, name: str) -> dict[str, Any]:
        items = (item for config in configs for item in config.get(f"{part}s") or ())
        return next(item.get(part) or {} for item in items if item["name"] == name)

    return named("user", named("context", current)["user"])


class Credentials:
    """The credentials of all requests.

    In a cluster, the files with token and CA are read again every minute. Everywhere, a 401 or an
    untrusted certificate causes an immediate read, at most once a second.
    """

    def __init__(self, info: kopf.ConnectionInfo) -> None:
        self.server = info.server.rstrip("/")
        self.proxy = info.proxy_url
        self._rotates = info.token is not None
        self._refreshing = asyncio.Lock()
        self._take(info)

    def _take(self, info: kopf.ConnectionInfo) -> None:
        self._read = time.monotonic()
        self.headers = info.as_http_headers()
        trust = _fingerprint(info)
        if trust != getattr(self, "_trust", b""):
            #: The TLS context of new connections; it is replaced when the CA was rotated.
            self.ssl: ssl.SSLContext = as_in_go(info.as_ssl_context())
            self._trust = trust  # only now: a context that could not be made is tried again

    async def renew(self) -> None:
        """Read the credentials again if they are old."""
        if self._rotates and time.monotonic() - self._read > TOKEN_AGE:
            await self.refresh()

    async def refresh(self) -> None:
        """Read the credentials again, unless they were read within the last second."""
        async with self._refreshing:  # those who wait share one result
            if time.monotonic() - self._read < UNAUTHORIZED:
                return
            self._read = time.monotonic()
            try:
                self._take(await asyncio.to_thread(find))
            except Exception as error:  # the token's file may be missing while it is rotated
                self._read = time.monotonic()  # it may have taken long, and others wait for it
                logger.warning("The credentials could not be read again: %s", error)


def _fingerprint(info: kopf.ConnectionInfo) -> bytes:
    """Return a hash of the CA and the client's certificate, which new connections use."""
    total = hashlib.sha256(repr((info.ca_data, info.certificate_data, info.insecure)).encode())
    for path in (info.ca_path, info.certificate_path):
        if path is not None:
            total.update(Path(os.fsdecode(path)).read_bytes())
    return total.digest()
