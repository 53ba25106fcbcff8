"""What these tests stand on: the booking service and the operator in the tests' own cluster."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from examples.flightticket.booking import install as booking
from kopf_kit.commands import crd, deploy
from kopf_kit.commands.operators import NAMESPACE, RELEASE
from kopf_kit.rig import cluster as clusters
from tests.e2e.kube import WAIT, ExistingCluster, Kube

#: Where the FlightTickets of the tests are.
HOME = "flighttickets-e2e"


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    """The cluster, with service, operator and an empty namespace; all of them go at the end."""
    if os.environ.get("INSTALLED_BY") == "olm":
        pytest.skip("they need the operator's Secret where Helm installs it; test_olm.py ran")
    made = clusters.up(clusters.TEST_NAME)
    kube = Kube(ExistingCluster(made.name, made.kubeconfig, made.kubectl), made.helm)
    _clean(kube, made)
    booking.install(made)
    deploy.install(made, "--set=networkPolicy.enabled=true")
    kube.kubectl("create", "namespace", HOME)
    yield kube
    _clean(kube, made)


def _clean(kube: Kube, made: clusters.Cluster) -> None:
    """Remove it all, also what an interrupted run left: its FlightTickets have finalizers."""
    kube.helm("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found", "--wait")
    if crd.is_there(made):
        for name in kube.kubectl("-n", HOME, "get", "ft", "-o", "name").split():
            free = '--patch={"metadata":{"finalizers":null}}'
            kube.kubectl("-n", HOME, "patch", "--type=merge", free, "--", name)
    kube.kubectl("delete", "namespace", HOME, "--ignore-not-found", "--timeout=120s")
    crd.delete(made)
    booking.remove(made)
    kube.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")


class BookingService:
    """The booking service, and its counter."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def fail(self, *faults: dict[str, Any]) -> None:
        """Have these faults from now on, and no others; what was held goes on."""
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
        """Have no service for a while."""
        scale = ("scale", f"statefulset/{booking.RELEASE}")
        self._kubectl(*scale, "--replicas=0")
        try:
            self._kubectl("wait", "--for=delete", f"pod/{booking.RELEASE}-0", WAIT)
            yield
        finally:
            self._kubectl(*scale, "--replicas=1")
            self._kubectl("rollout", "status", f"statefulset/{booking.RELEASE}", WAIT)

    def _kubectl(self, *arguments: str) -> None:
        self._kube.kubectl("-n", booking.NAMESPACE, *arguments)

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
        cluster = self._kube.cluster
        command = [str(cluster.kubectl_path), "--kubeconfig", str(cluster.kubeconfig_path)]
        forward = [*command, "-n", booking.NAMESPACE, "port-forward", f"pod/{booking.RELEASE}-0"]
        with subprocess.Popen([*forward, ":8081"], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
                assert port is not None, "kubectl port-forward has ended"
                with closing(HTTPConnection("127.0.0.1", int(port[1]), timeout=60)) as connection:
                    yield connection
            finally:
                process.terminate()


@pytest.fixture
def service(kube: Kube) -> Iterator[BookingService]:
    """The booking service; what a test has fail is well again after it."""
    one = BookingService(kube)
    yield one
    one.fail()
