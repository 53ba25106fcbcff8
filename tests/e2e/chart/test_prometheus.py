"""Dashboard and alerts on a real Prometheus, which scrapes the operator in the cluster.

The Prometheus Operator is not there: the test does what that does with the chart's ServiceMonitor
and PrometheusRule, as they are in the cluster. Prometheus reaches the operator through the API
server. Alerts fire at once here, on the last seconds instead of minutes; tests/chart proves with
promtool that they fire and end at the times that they are made with, also the five that no test
drives on a cluster (`ONLY_BY_PROMTOOL`).
"""

import base64
import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.pack import chart_dashboard
from hack.pack.artifacts import Published
from hack.rig.run import output
from tests.chart import prometheus_server
from tests.e2e import release
from tests.e2e.chart.conftest import clean_cluster, monitoring_kinds
from tests.e2e.chart.test_scenarios import scenario_values
from tests.e2e.kube import CommandError, Kube, Object
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.release import Operator
from tests.e2e.test_conflicts import foreign_pod
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.long

#: What a minute is here, and all longer times.
SOON = "10s"
_API = "monitoring.coreos.com"
#: A lost Lease is noticed soon, a single Message can occupy all workers, and sweeps are seen.
VALUES = (
    "--set=leaderElection.leaseDurationSeconds=4,leaderElection.renewDeadlineSeconds=3",
    "--set=leaderElection.retryPeriodSeconds=1",
    "--set=controller.workers=1,controller.sweepPeriodSeconds=2",
    "--set=controller.requestTimeoutSeconds=60",
)


class Monitored:
    """The operator, and the Prometheus that scrapes it."""

    def __init__(self, operator: Operator, folder: Path) -> None:
        self.operator = operator
        self.kube = operator.kube
        self._folder = folder
        self._targets: list[Object] = []
        self.prometheus: prometheus_server.Prometheus

    def read(self, kind: str) -> Object:
        """Return the chart's only object of a kind."""
        got = self.kube.kubectl(
            "-n", self.operator.namespace, "get", kind, self.operator.name, "-o", "json"
        )
        found: Object = json.loads(got)
        return found

    def config(self) -> dict[str, Any]:
        """Return a configuration of Prometheus with the rules in the cluster."""
        (group,) = self.read(f"prometheusrules.{_API}")["spec"]["groups"]
        rules = [
            {**rule, "for": "0s", "expr": re.sub(r"\[\d+[mh]\]", f"[{SOON}]", rule["expr"])}
            for rule in group["rules"]
        ]
        file = self._folder / "rules.yaml"
        file.write_text(json.dumps({"groups": [{"name": group["name"], "rules": rules}]}))
        self.discover()
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file)],
            "scrape_configs": [
                {
                    "job_name": "operator",
                    "scheme": "https",
                    "tls_config": self._credentials(),
                    "relabel_configs": self._relabelings(),
                    "file_sd_configs": [
                        {"files": [str(self._folder / "targets.json")], "refresh_interval": "1s"}
                    ],
                }
            ],
        }

    def _relabelings(self) -> list[Object]:
        """Return what the ServiceMonitor does to the target's labels, in Prometheus' own words."""
        (endpoint,) = self.read(f"servicemonitors.{_API}")["spec"]["endpoints"]
        return [
            {re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", key): value
             for key, value in relabeling.items()}
            for relabeling in endpoint["relabelings"]
        ]  # fmt: skip

    def _credentials(self) -> dict[str, str]:
        view = ("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
        config = json.loads(self.kube.kubectl(*view))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        for name, data in {
            "ca": cluster["certificate-authority-data"],
            "cert": user["client-certificate-data"],
            "key": user["client-key-data"],
        }.items():
            file = self._folder / name
            file.touch(0o600)
            file.write_bytes(base64.b64decode(data))
        return {f"{name}_file": str(self._folder / name) for name in ("ca", "cert", "key")}

    def discover(self) -> None:
        """Find what the ServiceMonitor selects, as the Prometheus Operator has Prometheus do."""
        monitor = self.read(f"servicemonitors.{_API}")["spec"]
        (endpoint,) = monitor["endpoints"]
        (where,) = monitor["namespaceSelector"]["matchNames"]
        selector = ",".join(f"{k}={v}" for k, v in monitor["selector"]["matchLabels"].items())
        get = ("-n", where, "get", "endpointslices", "-l", selector, "-o", "json")
        view = ("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
        server = self.kube.kubectl(*view).removeprefix("https://")
        targets = [
            {
                "targets": [server],
                "labels": {
                    "__metrics_path__": f"/api/v1/namespaces/{where}/pods/{pod}:{port}/proxy"
                    f"{endpoint['path']}",
                    "namespace": where,
                    "pod": pod,
                    "instance": pod,
                },
            }
            for found in json.loads(self.kube.kubectl(*get))["items"]
            for port in (p["port"] for p in found["ports"] or () if p["name"] == endpoint["port"])
            for pod in (one["targetRef"]["name"] for one in found["endpoints"] or ())
        ]
        if targets != self._targets:
            self._targets = targets
            new = self._folder / "targets.new"
            new.write_text(json.dumps(targets))
            new.rename(self._folder / "targets.json")

    def firing(self) -> set[str]:
        """Return the alerts that fire now."""
        self.discover()
        found = self.prometheus.query('ALERTS{alertstate="firing"}')
        return {sample["metric"]["alertname"] for sample in found}


@pytest.fixture(scope="module")
def monitored(
    kube: Kube, published: Published, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Monitored]:
    """The scenario `monitoring`, and a Prometheus."""
    clean_cluster(kube)
    making = make_namespace(kube, "monitored-home")
    operator = Operator(kube, published, namespace=next(making).name)
    folder = tmp_path_factory.mktemp("prometheus")
    with monitoring_kinds(kube):
        operator.install("--values", scenario_values("monitoring"), *VALUES)
        made = Monitored(operator, folder)
        with prometheus_server.running(folder, made.config()) as made.prometheus:
            made.prometheus.wait_for("message_operator_leader == 1")
            yield made
        operator.uninstall()
        release.remove_crd(kube)
    next(making, None)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, monitored: Monitored) -> Iterator[Namespace]:
    """A namespace for the test's Messages."""
    yield from make_namespace(monitored.kube, request.node.originalname)


def test_every_query_of_the_dashboard_shows_something(
    monitored: Monitored, namespace: Namespace
) -> None:
    message = namespace.create("hello", "hello")
    message.wait_until_ready()
    # The API server ends all watches of a kind that changes: they are opened again.
    description = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description",
                    "value": "Changed."}]  # fmt: skip
    monitored.kube.kubectl(
        "patch", "crd", release.CRD, "--type=json", "-p", json.dumps(description)
    )
    operator = monitored.operator
    selected = {"namespace": operator.namespace, "operator": operator.name}

    for query in chart_dashboard.queries(interval="1m", **selected):
        monitored.prometheus.wait_for(query)


# --- the alerts -----------------------------------------------------------------------------------

Trouble = Callable[[Monitored, Namespace], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def no_operator(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    with monitored.operator.stopped():
        yield


@contextlib.contextmanager
def no_right_to_the_lease(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    operator = monitored.operator
    role = ("-n", operator.namespace, "role", f"{operator.name}-leader-election")
    with without(operator, role, "update", "leases"):
        yield


@contextlib.contextmanager
def no_right_to_lists(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    operator = monitored.operator
    with without(operator, ("clusterrole", operator.name), "list", "pods"):
        yield


@contextlib.contextmanager
def without(operator: Operator, role: tuple[str, ...], verb: str, resource: str) -> Iterator[None]:
    """Take a right away for a while."""
    before = json.loads(operator.kube.kubectl("get", *role, "-o", "json"))["rules"]

    def give(rules: list[Object]) -> None:
        patch = json.dumps({"rules": rules})
        operator.kube.kubectl("patch", *role, "--type=merge", "-p", patch)

    give(
        [
            {**rule, "verbs": [v for v in rule["verbs"] if v != verb]}
            if resource in rule["resources"]
            else rule
            for rule in before
        ]
    )
    try:
        yield
    finally:
        give(before)


@contextlib.contextmanager
def stuck_messages(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    """Have a Message whose Pod's name is taken, and one whose former Pod does not end."""
    monitored.kube.create(foreign_pod("example.org/none"), namespace.name)
    namespace.create("hello", "hello")
    pending = namespace.create("pending", "before")
    pending.wait_until_ready()
    pending.patch_pod({"metadata": {"finalizers": ["example.org/held"]}})
    pending.edit(text="after")
    yield
    pending.patch_pod({"metadata": {"finalizers": None}})
    namespace.message("hello").delete()
    pending.wait_until_ready()


@contextlib.contextmanager
def a_message_that_cannot_be_read(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    """Have a text that is a number, which only a CRD that was changed lets in."""
    kube = monitored.kube
    text = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text"
    (version,) = (kube.get("CustomResourceDefinition", release.CRD) or {})["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["text"]

    def change(value: Object) -> None:
        patch = json.dumps([{"op": "replace", "path": text, "value": value}])
        kube.kubectl("patch", "crd", release.CRD, "--type=json", "-p", patch)

    message = {
        "apiVersion": "myorg.dev/v1",
        "kind": "Message",
        "metadata": {"name": "number"},
        "spec": {"text": 7},
    }

    def apply() -> str:
        with contextlib.suppress(CommandError):  # until the API server has taken up the change
            return namespace.kubectl("apply", "-f", "-", stdin=json.dumps(message))
        return ""

    change({"x-kubernetes-preserve-unknown-fields": True})
    try:
        wait_until("a text that is a number to be accepted", apply, bool)
        yield
    finally:
        namespace.kubectl("delete", "message", "number", "--ignore-not-found")
        change(schema)


@contextlib.contextmanager
def api_server_fails(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    with admission(monitored, namespace, 1):
        for number in range(5):
            namespace.create(f"hello-{number}", "hello")
        yield


@contextlib.contextmanager
def api_server_hangs(monitored: Monitored, namespace: Namespace) -> Iterator[None]:
    with (
        socket.create_server(("0.0.0.0", 0)) as silent,  # noqa: S104 (the node asks it)
        admission(monitored, namespace, silent.getsockname()[1]),
    ):
        for number in range(5):
            namespace.create(f"hello-{number}", "hello")
        yield


@contextlib.contextmanager
def admission(monitored: Monitored, namespace: Namespace, port: int) -> Iterator[None]:
    """Have the API server ask this machine about each Pod of a namespace that is created."""
    networks = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}"
    node = f"{monitored.kube.cluster.name}-control-plane"
    here = output(["docker", "inspect", "-f", networks, node]).strip()
    name = namespace.name
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "pods.example.org",
                "clientConfig": {"url": f"https://{here}:{port}/"},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "rules": [
                    {
                        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                        "operations": ["CREATE"],
                    }
                ],
                "failurePolicy": "Fail",
                "timeoutSeconds": 30,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }  # fmt: skip
    monitored.kube.kubectl("create", "-f", "-", stdin=json.dumps(webhook))
    pod = json.dumps({"apiVersion": "v1", **foreign_pod("example.org/none", name="asked")})
    asked = ("create", "--dry-run=server", "--request-timeout=5s", "-f", "-")

    def is_in_force() -> bool:
        try:
            namespace.kubectl(*asked, stdin=pod)
        except CommandError:
            return True
        return False

    try:
        wait_until("the API server to ask", is_in_force, bool)
        yield
    finally:
        monitored.kube.kubectl("delete", "validatingwebhookconfiguration", name)


TROUBLES: dict[Trouble, set[str]] = {
    no_operator: {"MessageOperatorDown"},
    no_right_to_the_lease: {"MessageOperatorNoLeader", "MessageOperatorForbidden"},
    no_right_to_lists: {"MessageOperatorForbidden", "MessageOperatorUnserved"},
    stuck_messages: {"MessageOperatorMessagesFailed", "MessageOperatorMessagesPending"},
    a_message_that_cannot_be_read: {"MessageOperatorUnreadableObjects"},
    api_server_fails: {"MessageOperatorApiErrors"},
    api_server_hangs: {"MessageOperatorMessagesPending"},
}

#: The alerts that no test drives on a cluster; tests/chart holds this list to the chart.
ONLY_BY_PROMTOOL = {
    "MessageOperatorRestarting",
    "MessageOperatorReconcileErrors",
    "MessageOperatorQueueStuck",
    "MessageOperatorWatchMisses",
    "MessageOperatorSweepsFail",
}


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_an_alert_fires_in_trouble_and_ends_after_it(
    monitored: Monitored, namespace: Namespace, trouble: Trouble
) -> None:
    wait_until("no alert to fire", monitored.firing, lambda found: not found)

    with trouble(monitored, namespace):
        wait_until(
            f"the alerts {TROUBLES[trouble]} to fire", monitored.firing, TROUBLES[trouble].issubset
        )

    wait_until("the alerts to end", monitored.firing, lambda found: not found)
