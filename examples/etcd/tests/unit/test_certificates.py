"""When certificates expire: what the operator reads of the Secrets, and what it tells."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf_runtime as kr
import pytest

from etcd_operator import clusters, metrics
from etcd_operator.clusters import Eye, Look
from etcd_operator.decide import Do, Step
from etcd_operator.settings import Settings
from examples import tls
from tests.unit.test_decide import healthy
from tests.unit.test_operator import cluster

NOW = datetime.now(UTC)
AUTHORITY = tls.authority(days=99)


def day(number: float) -> Any:
    """Return a moment, to the hours."""
    return pytest.approx((NOW + timedelta(days=number)).timestamp(), abs=7200)


def certificate(days: int) -> str:
    """Return a certificate as PEM that expires after so many days."""
    return tls.leaf(AUTHORITY, "any", days=days)["tls.crt"]


LEAF, LONG = certificate(9), AUTHORITY.pem


def eye(**crt: str | None) -> Eye:
    wants = cluster(tls={"peerSecret": "p", "clientSecret": "c"})
    secrets: Any = {
        ("ns", name): {"tls.crt": text, "ca.crt": LONG} if text is not None else None
        for name, text in crt.items()
    }
    return Eye(wants, kr.CallContext(Settings(), namespace="ns", reads={clusters.SECRET: secrets}))


def test_the_secret_is_told_whose_certificate_expires_first() -> None:
    expiry = eye(c=certificate(8) + certificate(700), p=certificate(10)).expiry
    assert expiry is not None
    assert (expiry.at, expiry.secret) == (day(8), "c")
    assert expiry.late == day(7.2)
    with pytest.raises(kr.Wait, match="Secret p: "):
        _ = eye(c=LEAF, p="none").expiry


def test_a_secret_that_is_not_there_or_lacks_a_key_is_told() -> None:
    with pytest.raises(kr.Wait, match=r"Secret p has no tls\.crt"):
        _ = eye(c=LEAF, p="").expiry
    with pytest.raises(kr.Wait, match="Secret ns/p does not exist"):
        _ = eye(c=LEAF, p=None).expiry


@pytest.mark.parametrize(("now", "reason"), [(-1, "Healthy"), (0, "CertificateExpired")])
def test_the_time_is_told_for_people_and_for_prometheus(now: int, reason: str) -> None:
    at = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
    expiry = clusters.Expiry(at, at - 86400, "peers")
    look = Look(replace(healthy(3), now=at + now), Step(Do.NOTHING), expiry=expiry)
    status: Any = clusters.status(cluster(), kr.Observed(None, sync_result=look))

    assert (status.reason, "Secret peers" in status.message) == (reason, reason != "Healthy")
    assert status.fields.certificates_expire == "2026-01-10T00:00:00Z"
    assert status.fields.certificates_late == "2026-01-09T00:00:00Z"
    assert metrics.moment({"at": "2026-01-10T00:00:00Z"}, "at") == at
    assert metrics.moment({"at": ""}, "at") is None
