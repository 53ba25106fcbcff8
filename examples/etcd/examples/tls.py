"""Prints an EtcdCluster `sample` with TLS, and the Secrets that it needs, as JSON for kubectl.

python examples/tls.py | kubectl apply -f -

It makes an authority that nobody keeps, so nothing can be renewed: docs/tls.md has one that lasts.
"""

import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 30


class Signer(NamedTuple):
    """An authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """Its certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


def _signed(
    subject: str, issuer: Signer | None, extensions: list[x509.ExtensionType], days: int
) -> Signer:
    # A certificate with a CommonName could not be used with auth.
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, subject)])
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer.certificate.subject if issuer is not None else name,
        name,
        key.public_key(),
        x509.random_serial_number(),
        now - timedelta(hours=1),
        now + timedelta(days=days),
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints)
        builder = builder.add_extension(extension, critical=critical)
    return Signer(key, builder.sign(issuer.key if issuer is not None else key, hashes.SHA256()))


def authority(days: int = DAYS) -> Signer:
    """Make an authority."""
    subject = f"sample {x509.random_serial_number():x}"  # OpenSSL takes those of one name for one
    return _signed(subject, None, [x509.BasicConstraints(ca=True, path_length=0)], days)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def leaf(signer: Signer, *hosts: str, days: int = DAYS) -> dict[str, str]:
    """Make a certificate for servers and clients; return what a Secret has of it."""
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    extensions: list[x509.ExtensionType] = [
        x509.SubjectAlternativeName(map(_name, hosts)),
        x509.ExtendedKeyUsage(uses),
        x509.BasicConstraints(ca=False, path_length=None),
    ]
    mine = _signed("etcd", signer, extensions, days)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key = mine.key.private_bytes(serialization.Encoding.PEM, *form).decode()
    return {"tls.crt": mine.pem, "tls.key": key, "ca.crt": signer.pem}


def manifests(
    name: str = "sample", namespace: str = "default", *hosts: str
) -> list[dict[str, Any]]:
    """Return the Secrets and the EtcdCluster, whose clients outside reach it by some hosts."""
    signer, own = authority(), f"{name}.{namespace}.svc"
    texts = {
        secret: leaf(signer, f"*.{own}", f"{name}-client.{namespace}.svc", "localhost", *hosts)
        for secret in (f"{name}-peers", f"{name}-clients")
    }
    secrets: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": namespace},
            "type": "kubernetes.io/tls",
            "stringData": data,
        }
        for secret, data in texts.items()
    ]
    tls = {"peerSecret": f"{name}-peers", "clientSecret": f"{name}-clients"}
    etcd = {
        "apiVersion": "etcd.example.com/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": 3, "version": "3.6.16", "tls": tls},
    }
    return [*secrets, etcd]


if __name__ == "__main__":
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests()}))
