"""Certificates of authorities that the tests create."""

import ssl
from pathlib import Path

import trustme


def write_certificate(folder: Path, authority: trustme.CA, host: str = "127.0.0.1") -> None:
    """Write a certificate for a host into a folder, or renew it there.

    As the kubelet does, it swaps one symbolic link, through which both files are read.
    """
    folder.mkdir(exist_ok=True)
    version = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    version.mkdir()
    leaf = authority.issue_cert(host)
    leaf.cert_chain_pems[0].write_to_path(version / "tls.crt")
    leaf.private_key_pem.write_to_path(version / "tls.key")
    (folder / "..data_new").symlink_to(version.name)
    (folder / "..data_new").rename(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def trust_in(authority: trustme.CA) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts only this authority."""
    return ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
