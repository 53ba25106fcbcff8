"""What the operator tells of certificates that expire."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import kopf_runtime as kr
import pytest

from etcd_operator import clusters, metrics
from etcd_operator.clusters import Look
from etcd_operator.decide import Do, Step
from tests.unit.test_decide import healthy
from tests.unit.test_operator import cluster


@pytest.mark.parametrize(("now", "reason"), [(-1, "Healthy"), (0, "CertificateExpired")])
def test_the_time_is_told_for_people_and_for_prometheus(now: int, reason: str) -> None:
    at = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
    expiry = kr.Expiry(at, at - 86400, "peers")
    look = Look(replace(healthy(3), now=at + now), Step(Do.NOTHING), expiry=expiry)
    status: Any = clusters.status(cluster(), kr.Observed(None, sync_result=look))

    assert (status.reason, "Secret peers" in status.message) == (reason, reason != "Healthy")
    assert status.fields.certificates_expire == "2026-01-10T00:00:00Z"
    assert status.fields.certificates_late == "2026-01-09T00:00:00Z"
    assert metrics.moment({"at": "2026-01-10T00:00:00Z"}, "at") == at
    assert metrics.moment({"at": ""}, "at") is None
