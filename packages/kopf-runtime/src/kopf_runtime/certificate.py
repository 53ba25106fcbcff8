"""The TLS certificate of /metrics, which is read again when its files change.

`web` uses it. A renewal (by cert-manager, through the kubelet) swaps a symbolic link, so both
files change at the same moment.
"""

import logging
import ssl
from pathlib import Path

logger = logging.getLogger(__name__)


class CertificateError(Exception):
    """The certificate cannot be used; the message says which one, and what to do."""


class Certificate:
    """The files `tls.crt` and `tls.key` of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the files; raise `CertificateError`."""
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self._seen = self._look()
        try:
            self._current = self._load()
        except OSError as error:  # an SSLError is one, too
            raise CertificateError(
                f"{folder} has no usable tls.crt and tls.key ({error}): put a certificate and its "
                "key there, both as PEM"
            ) from error
        #: The server's TLS context. Each handshake switches to the newest certificate, and existing
        #: connections keep theirs.
        self.context = self._load()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest()

    def _newest(self) -> ssl.SSLContext:
        """Return a context with the current files, or with the last ones that could be used."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen  # unusable files are tried and logged only once
            try:
                self._current = self._load()
                logger.info("Serving /metrics with the new certificate %s", self._certificate)
            except OSError as error:
                logger.warning("Still serving /metrics with the former certificate: %s", error)
        return self._current

    def _look(self) -> list[tuple[int, int, int]]:
        """Return values that differ when a file has changed; omit files that do not exist."""
        stats = [file.stat() for file in (self._certificate, self._key) if file.exists()]
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats]

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Without a password, OpenSSL would ask the terminal for the one of an encrypted key.
        context.load_cert_chain(self._certificate, self._key, password="")
        return context
