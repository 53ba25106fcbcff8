"""Control planes of a test's own, and what depends on their version."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import kopf
import pytest

from kopf_kit.rig.control_plane import ADMIN, chosen
from kopf_kit.testing import api_server
from kopf_kit.testing.requests import Cluster, connected
from kopf_kit.testing.under_test import Subject, prepare
from kopf_kit.testing.world import World, world
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from runtime.support.running import NAME

C = TypeVar("C", bound=Client)


@asynccontextmanager
async def own_world(subject: Subject, *installed: Subject) -> AsyncIterator[World]:
    """Run a control plane that has these subjects' kinds, and make a namespace on it."""
    with api_server.running(users=(subject.user, api_server.OPERATOR)) as plane:
        async with connected(plane) as cluster:
            await prepare(cluster, *installed)
            plane.start_controllers(*api_server.CONTROLLERS)
            async with world(cluster, subject) as here:
                yield here


@asynccontextmanager
async def client_of(cluster: Cluster, type_: type[C], timeout: float = 10.0) -> AsyncIterator[C]:
    """Have a client of the runtime, with an administrator's rights, that may write."""
    client = type_(NAME, "1", timeout, Metrics(NAME))
    client.may_write = lambda: True
    server = cluster.plane.server
    client.open(Credentials(kopf.ConnectionInfo(server=server, token=ADMIN, insecure=True)))
    try:
        yield client
    finally:
        await client.close()


def is_before(minor: int) -> bool:
    """Return whether the API server is older than that minor version of Kubernetes 1."""
    return int(chosen().removeprefix("1.")) < minor


async def policies_served(cluster: Cluster, kind: str) -> tuple[str, str]:
    """Return the API version that a kind of policies is served in, and where; skip if in none.

    Those that validate are beta in Kubernetes 1.29; those that mutate are alpha from 1.32 on, beta
    from 1.34 on.
    """
    for each in (await cluster.ask("GET", "/apis/admissionregistration.k8s.io"))["versions"]:
        version = each["groupVersion"]
        for resource in (await cluster.ask("GET", f"/apis/{version}"))["resources"]:
            if resource["kind"] == kind:
                return version, f"/apis/{version}/{resource['name']}"
    if kind == "MutatingAdmissionPolicy" and is_before(32):
        pytest.skip("Kubernetes has no policies that mutate before 1.32")
    raise LookupError(f"the API server serves no {kind}")


async def scraped(port: int) -> dict[str, float]:
    """Scrape the operator; return its series with their values."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        lines = (await response.text()).splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(value) for series, _, value in pairs}
