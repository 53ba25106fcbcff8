"""Certificates of authorities that the tests make up."""

import ssl
from pathlib import Path

import trustme


def write_certificate(folder: Path, authority: trustme.CA) -> None:
    """Put a certificate for 127.0.0.1 into a folder, or renew it there.

    As by the kubelet, one symbolic link is swapped, through which both files are read.
    """
    folder.mkdir(exist_ok=True)
    version = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    version.mkdir()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.cert_chain_pems[0].write_to_path(version / "tls.crt")
    leaf.private_key_pem.write_to_path(version / "tls.key")
    (folder / "..data_new").symlink_to(version.name)
    (folder / "..data_new").rename(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def trust_in(authority: trustme.CA) -> ssl.SSLContext:
    """Return what a client trusts this authority with, and no other."""
    return ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
