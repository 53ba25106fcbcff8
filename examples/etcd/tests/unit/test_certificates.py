"""When certificates expire: what the operator reads of the Secrets, and what it tells."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf_runtime as kr
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from etcd_operator import clusters, metrics
from etcd_operator.clusters import Eye, Look
from etcd_operator.decide import Do, Step
from etcd_operator.settings import Settings
from tests.unit.test_decide import healthy
from tests.unit.test_operator import cluster

KEY = ec.generate_private_key(ec.SECP256R1())
START = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> float:
    return (START + timedelta(days=number)).timestamp()


def certificate(days: int, subject: str, issuer: str) -> str:
    """Return a certificate as PEM that expires after so many days."""
    owner, maker = (
        x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])
        for name in (subject, issuer)
    )
    builder = x509.CertificateBuilder().subject_name(owner).issuer_name(maker)
    builder = builder.public_key(KEY.public_key()).serial_number(1).not_valid_before(START)
    signed = builder.not_valid_after(START + timedelta(days=days)).sign(KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


LEAF, LONG = certificate(9, "leaf", "a"), certificate(99, "a", "a")


def eye(**crt: str | None) -> Eye:
    wants = cluster(tls={"peerSecret": "p", "clientSecret": "c"})
    secrets: Any = {
        ("ns", name): {"tls.crt": text, "ca.crt": LONG} if text is not None else None
        for name, text in crt.items()
    }
    return Eye(wants, kr.CallContext(Settings(), namespace="ns", reads={clusters.SECRET: secrets}))


def test_the_secret_is_told_whose_certificate_expires_first() -> None:
    both = certificate(8, "leaf", "a") + certificate(700, "a", "a")
    expiry = eye(c=both, p=certificate(10, "leaf", "a")).expiry
    assert expiry is not None
    assert (expiry.at, expiry.secret) == (day(8), "c")
    assert expiry.late == pytest.approx(day(7.2))
    with pytest.raises(kr.Wait, match="Secret p: "):
        _ = eye(c=LEAF, p="none").expiry


def test_a_secret_that_is_not_there_or_lacks_a_key_is_told() -> None:
    with pytest.raises(kr.Wait, match=r"Secret p has no tls\.crt"):
        _ = eye(c=LEAF, p="").expiry
    with pytest.raises(kr.Wait, match="Secret ns/p does not exist"):
        _ = eye(c=LEAF, p=None).expiry


@pytest.mark.parametrize(("now", "reason"), [(8, "Healthy"), (9, "CertificateExpired")])
def test_the_time_is_told_for_people_and_for_prometheus(now: int, reason: str) -> None:
    expiry = clusters.Expiry(day(9), day(8), "peers")
    look = Look(replace(healthy(3), now=day(now)), Step(Do.NOTHING), expiry=expiry)
    status: Any = clusters.status(cluster(), kr.Observed(None, sync_result=look))

    assert (status.reason, "Secret peers" in status.message) == (reason, reason != "Healthy")
    assert status.fields.certificates_expire == "2026-01-10T00:00:00Z"
    assert status.fields.certificates_late == "2026-01-09T00:00:00Z"
    assert metrics.moment({"at": "2026-01-10T00:00:00Z"}, "at") == day(9)
    assert metrics.moment({"at": ""}, "at") is None
