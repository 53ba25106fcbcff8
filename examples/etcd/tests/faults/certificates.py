"""An authority of a test, and certificates with DNS names and without a CommonName."""

import subprocess
from pathlib import Path


def authority(folder: Path) -> None:
    """Make the authority, ca.crt and ca.key."""
    folder.mkdir()
    _openssl(
        "req",
        "-x509",
        *_KEY,
        "-subj",
        "/O=test",
        "-days",
        "2",
        "-keyout",
        folder / "ca.key",
        "-out",
        folder / "ca.crt",
    )


def certificate(ca: Path, folder: Path, names: str) -> dict[str, str]:
    """Make tls.crt and tls.key beside ca.crt, as a Secret has them; return their texts."""
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes((ca / "ca.crt").read_bytes())
    usage = "extendedKeyUsage=serverAuth,clientAuth"
    _openssl(
        "req",
        "-x509",
        *_KEY,
        "-subj",
        "/O=etcd",
        "-days",
        "2",
        "-CA",
        ca / "ca.crt",
        "-CAkey",
        ca / "ca.key",
        "-addext",
        usage,
        "-addext",
        f"subjectAltName={names}",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        folder / "tls.key",
        "-out",
        folder / "tls.crt",
    )
    return {file.name: file.read_text() for file in folder.iterdir()}


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)  # noqa: S603, S607
