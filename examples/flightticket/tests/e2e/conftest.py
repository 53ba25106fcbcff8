"""What these tests stand on: the booking service, beside the operator in the tests' cluster."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
from kopf_kit.testing import Cluster, Installed, Kubectl

from booking import install as booking

WAIT = "--timeout=300s"


@pytest.fixture(scope="session", autouse=True)
def booked(request: pytest.FixtureRequest, e2e_cluster: Cluster) -> Iterator[None]:
    """Keep the booking service in the cluster, and its token where the operator is."""
    where = request.config.getoption("--installed-in") or booking.OPERATOR
    _let_go(Kubectl(e2e_cluster, "default"))
    booking.remove(e2e_cluster)
    booking.install(e2e_cluster, where)
    yield
    booking.remove(e2e_cluster)


@pytest.fixture(scope="session")
def helm_options(booked: None) -> tuple[str, ...]:
    """Install the operator after the booking service, and remove it before."""
    return ("--set=networkPolicy.enabled=true",)


def _let_go(kubectl: Kubectl) -> None:
    """Take their finalizers from the FlightTickets of an interrupted run."""
    if kubectl("get", "crd", "flighttickets.flights.com", "--ignore-not-found"):
        for ticket in kubectl.get("ft", "--all-namespaces")["items"]:
            meta, free = ticket["metadata"], '--patch={"metadata":{"finalizers":null}}'
            where = ("--namespace", meta["namespace"], "ft", meta["name"])
            kubectl("patch", "--type=merge", free, *where)


class BookingService:
    """The booking service, and its counter."""

    def __init__(self, cluster: Cluster) -> None:
        self.kubectl = Kubectl(cluster, booking.NAMESPACE)

    def fail(self, *faults: dict[str, Any]) -> None:
        """Inject these faults from now on, and no others; requests that were held go on."""
        self._ask("PUT", "faults", list(faults))

    def cancel(self, key: str) -> None:
        """Cancel a booking at the counter."""
        self._ask("DELETE", f"bookings/{key}")

    def calls(self, key: str) -> list[str]:
        """Return the methods of the calls that came for a booking."""
        return [call["method"] for call in self._ask("GET", "calls") if call["key"] == key]

    def events(self, key: str) -> list[str]:
        """Return what happened to a booking."""
        return [event["event"] for event in self._ask("GET", "events") if event["key"] == key]

    @contextmanager
    def down(self) -> Iterator[None]:
        """Remove the service for a while."""
        scale = ("scale", f"statefulset/{booking.RELEASE}")
        self.kubectl(*scale, "--replicas=0")
        try:
            self.kubectl("wait", "--for=delete", f"pod/{booking.RELEASE}-0", WAIT)
            yield
        finally:
            self.kubectl(*scale, "--replicas=1")
            self.kubectl("rollout", "status", f"statefulset/{booking.RELEASE}", WAIT)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        with self._counter() as connection:
            connection.request(method, f"/{path}", None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        assert answer.status < 300, text
        return json.loads(text or "null")

    @contextmanager
    def _counter(self) -> Iterator[HTTPConnection]:
        """Reach the counter as a person does: it listens in the Pod alone."""
        forward = self.kubectl.command("port-forward", f"pod/{booking.RELEASE}-0", ":8081")
        with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
            try:
                assert process.stdout is not None
                port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
                assert port is not None, "kubectl port-forward has ended"
                with closing(HTTPConnection("127.0.0.1", int(port[1]), timeout=60)) as connection:
                    yield connection
            finally:
                process.terminate()


@pytest.fixture
def service(e2e_cluster: Cluster, installed: Installed) -> Iterator[BookingService]:
    """The booking service; what a test has fail is well again after it."""
    one = BookingService(e2e_cluster)
    yield one
    one.fail()
