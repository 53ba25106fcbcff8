"""The certificate that /metrics is served with; read again when its files change.

`web` serves with it. A renewal (by cert-manager, through the kubelet) swaps a symbolic link, so
both files change in one moment.
"""

import logging
import ssl
from pathlib import Path

logger = logging.getLogger(__name__)


class CertificateError(Exception):
    """There is no usable certificate; the text says where, and what to do."""


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
        #: What a server listens with. It changes to the newest certificate within each handshake,
        #: so connections that are there already stay.
        self.context = self._load()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest()

    def _newest(self) -> ssl.SSLContext:
        """Return a context with what the files are now, or with what they were last of use."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen  # what cannot be used is tried, and told, once
            try:
                self._current = self._load()
                logger.info("Serving /metrics with the new certificate %s", self._certificate)
            except OSError as error:
                logger.warning("Still serving /metrics with the former certificate: %s", error)
        return self._current

    def _look(self) -> list[tuple[int, int, int]]:
        """Return what tells whether the files are others; a file that is not there is left out."""
        stats = [file.stat() for file in (self._certificate, self._key) if file.exists()]
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats]

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # With a password, or OpenSSL asks the terminal for that of an encrypted key.
        context.load_cert_chain(self._certificate, self._key, password="")
        return context
