"""Each of the chart's `ci/*-values.yaml`, installed for real."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from chart import helm
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import registry
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from kopf_kit.testing.installed import namespace as made_namespace
from kopf_kit.testing.requests import wait_until
from tests.chart.projects import CI
from tests.e2e.chart import scraping
from tests.e2e.chart.conftest import Releases, image_digest, monitoring_kinds, the_kind
from tests.e2e.messages import PART_OF, RESTRICTED, Namespace, restarts, uid
from tests.e2e.release import CRD, NAME, Operator
from tests.support.plugin import Plugin


def scenario_values(scenario: str) -> str:
    """Return the file of a scenario's values."""
    return str(helm.CHART / "ci" / f"{scenario}-values.yaml")


def install(operator: Operator, scenario: str, *options: str) -> None:
    """Install a scenario; only where the images are is another matter here."""
    operator.install("--values", scenario_values(scenario), *options)


@pytest.mark.long  # every other test of tests/e2e has them, but for `helm test`
def test_defaults(
    releases: Releases, home: Namespace, namespace: Namespace, published: Published
) -> None:
    assert "@sha256:" in published.chart
    operator = releases(home)

    install(operator, "defaults")

    namespace.create("hello", "hello").wait_until_ready()
    tested = operator.test()
    assert "Succeeded" in tested
    assert "/readyz: ok" in tested  # the log, which Helm 3 reads when the test has ended


@pytest.fixture
def teams(releases: Releases, cluster: Cluster) -> Iterator[list[Namespace]]:
    """Return the namespaces that the scenario `namespaced` is about."""
    with contextlib.ExitStack() as made:
        yield [
            Namespace(made.enter_context(made_namespace(cluster, name, PART_OF, RESTRICTED)))
            for name in CI["namespaced"]["watchNamespaces"]
        ]


@pytest.mark.long
def test_namespaced(
    releases: Releases, home: Namespace, teams: list[Namespace], kubectl: Kubectl
) -> None:
    """It is installed by somebody who administers these namespaces and has no other rights."""
    the_kind(kubectl)
    home.kubectl("create", "serviceaccount", "installer")
    account = f"{home.name}:installer"
    for place in (home, *teams):
        role = ("installer", "--clusterrole=admin", f"--serviceaccount={account}")
        place.kubectl("create", "rolebinding", *role)
    ask = ("auth", "can-i", "patch", "messages", "--subresource=status")
    wait_until(
        "the role admin to be complete",
        lambda: home.output(*ask, f"--as=system:serviceaccount:{account}"),
        lambda said: said == b"yes\n",
    )
    operator = releases(home)

    install(operator, "namespaced", f"--kube-as-user=system:serviceaccount:{account}")

    for team in teams:
        team.create("hello", "hello").wait_until_ready()
    assert "Succeeded" in operator.test()
    roles = kubectl("get", "clusterroles", "-o", "name", "-l", OURS).split()
    assert [role for role in roles if f"/{CRD}-" not in role] == []  # crds.yaml has those of users


@pytest.mark.long
def test_selected(
    releases: Releases, home: Namespace, namespace: Namespace, other: Namespace, plugin: Plugin
) -> None:
    """A namespace is served from when it gets the label until it loses it."""
    operator = releases(home)
    install(operator, "selected")
    message, beside = namespace.create("hello", "hello"), other.create("hello", "hello")

    for place in (namespace, other):
        place.kubectl("label", "namespace", place.name, "messages=enabled")
    pod = message.wait_until_ready()
    beside.wait_until_ready()
    assert "Succeeded" in operator.test()

    namespace.kubectl("label", "namespace", namespace.name, "messages-")
    wait_until(
        "the operator to know that the label is gone",
        lambda: f"The namespace {namespace.name} is not selected any more" in operator.log(),
        bool,
    )
    message.edit(text="after")
    beside.edit(text="after")
    beside.wait_for_log(b"after\n")  # what came later is done, so the former would be, too
    assert uid(message.pod()) == uid(pod)
    told = plugin("why", "hello", "-n", namespace.name)
    assert told.first == (
        "Message hello: this is of an earlier version of it; no operator serves the namespace "
        f"{namespace.name}."
    )
    assert "messages=enabled" in told.part("Do")
    unserved = f"✗ Namespaces   no operator serves the namespace {namespace.name}"
    # The namespaces of other tests, which nobody serves either, may be on their way out.
    wait_until(
        "it alone not to be served", lambda: plugin("doctor").out, lambda out: unserved in out
    )

    namespace.kubectl("label", "namespace", namespace.name, "messages=enabled")
    message.wait_for_log(b"after\n")


OURS = f"app.kubernetes.io/instance={NAME}"


def test_ha(releases: Releases, home: Namespace, namespace: Namespace) -> None:
    """Of three operators one works; killed, another takes over, and no Pod notices."""
    operator = releases(home)

    install(operator, "ha")

    messages = [namespace.create(name, "hello") for name in ("first", "second", "third")]
    first, edited, _ = messages
    pods = [message.wait_until_ready() for message in messages]
    events = [(message.wait_for_event("Created"), message.events()) for message in messages]
    assert [(len(told), event.get("count")) for event, told in events] == [(1, 1)] * 3
    names = {pod["metadata"]["name"] for pod in operator.wait_until_ready(3)}
    leader = operator.leader()
    assert leader in names
    allowed = ("get", "pdb", NAME, "-o", "jsonpath={.status.disruptionsAllowed}")
    wait_until("one Pod to be expendable", lambda: home.kubectl(*allowed), "1".__eq__)

    home.kubectl("delete", "pod", leader, "--force", "--grace-period=0")
    edited.edit(text="after")
    new = namespace.create("new", "new")

    edited.wait_until_ready(instead_of=pods[1])
    edited.wait_for_log(b"after\n")
    new.wait_until_ready()
    # It is a standby, or the Pod that came instead.
    wait_until("another to lead", operator.leader, lambda found: found not in ("", leader))
    assert "Succeeded" in operator.test()
    kept = first.wait_until_ready()
    assert (uid(kept), restarts(kept)) == (uid(pods[0]), 0)


@pytest.mark.long
def test_air_gapped(
    releases: Releases, home: Namespace, namespace: Namespace, published: Published
) -> None:
    """Its registry and its digests are made up; here they are those that there are."""
    images = {
        "image": ("message-operator", image_digest(published)),
        "messagePod.image": ("busybox", registry.local_digest("busybox:1.37")),
    }
    options = [f"--set-string=global.imageRegistry={registry.ADDRESS}"]
    for image, (repository, digest) in images.items():
        options.append(f"--set-string={image}.repository={repository}")
        options.append(f"--set-string={image}.digest={digest}")
    operator = releases(home, published=Published(str(helm.CHART), ()))

    install(operator, "air-gapped", *options)

    message_pod = namespace.create("hello", "hello").wait_until_ready()
    (status,) = message_pod["status"]["containerStatuses"]
    assert status["imageID"].endswith(registry.local_digest("busybox:1.37"))
    (own,) = operator.pods()
    for pod in (own, message_pod):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        (container,) = pod["spec"]["containers"]
        assert container["image"].startswith(f"{registry.ADDRESS}/")
        assert "@sha256:" in container["image"]
    assert "Succeeded" in operator.test()


@pytest.mark.long
def test_monitoring(
    releases: Releases, home: Namespace, namespace: Namespace, kubectl: Kubectl
) -> None:
    operator = releases(home)

    with monitoring_kinds(kubectl):
        install(operator, "monitoring")

        namespace.create("hello", "hello").wait_until_ready()
        assert "Succeeded" in operator.test()
        kinds = "servicemonitor,prometheusrule,configmap"
        found = home.kubectl("get", kinds, "-l", OURS, "-o", "name").split()
        operator.uninstall()

    assert found == [
        f"servicemonitor.monitoring.coreos.com/{NAME}",
        f"prometheusrule.monitoring.coreos.com/{NAME}",
        f"configmap/{NAME}-dashboard",
    ]


@pytest.mark.long
def test_secure_metrics(
    releases: Releases, home: Namespace, namespace: Namespace, kubectl: Kubectl, tmp_path: Path
) -> None:
    """Prometheus gets them with the right to, and not without; the certificate is renewed."""
    secret = CI["secure-metrics"]["metrics"]["secure"]["secretName"]
    authority, host = trustme.CA(), f"{NAME}-metrics.{home.name}.svc"
    first = scraping.write_certificate(home, secret, authority, host)
    operator = releases(home)
    tokens = {"nobody": ""}
    for account in ("prometheus", "other"):
        home.kubectl("create", "serviceaccount", account)
        tokens[account] = home.kubectl("create", "token", account).strip()
    binding = ("clusterrolebinding", f"{home.name}-prometheus")

    with monitoring_kinds(kubectl):
        install(operator, "secure-metrics")
        reader = f"--clusterrole={home.name}.{NAME}-metrics-reader"
        kubectl("create", *binding, reader, f"--serviceaccount={home.name}:prometheus")
        try:
            namespace.create("hello", "hello").wait_until_ready()
            assert "Succeeded" in operator.test()
            with scraping.scraping(operator, home, tmp_path, tokens) as scraped:
                scraped.prometheus.wait_for('message_operator_messages{job="prometheus"} == 1')
                errors = wait_until(
                    "the others to be refused",
                    scraped.errors,
                    lambda jobs: "403" in jobs["other"] and "401" in jobs["nobody"],
                )
                assert errors["prometheus"] == ""
                assert scraped.certificate() == first

                renewed = scraping.write_certificate(home, secret, authority, host)
                home.kubectl("annotate", "pods", "-l", OURS, "now=1")  # the kubelet looks at once
                wait_until("the renewed one", scraped.certificate, lambda found: found == renewed)
                assert scraped.errors()["prometheus"] == ""
        finally:
            kubectl("delete", *binding)
        operator.uninstall()


@pytest.mark.long
def test_hardened(releases: Releases, home: Namespace, namespace: Namespace) -> None:
    """Whether the policy is enforced is up to the network of the cluster."""
    operator = releases(home)

    install(operator, "hardened")

    namespace.create("hello", "hello").wait_until_ready()
    assert "Succeeded" in operator.test()
    assert NAME in home.kubectl("get", "networkpolicies", "-o", "name")


@pytest.mark.long
def test_minimal(
    releases: Releases, home: Namespace, namespace: Namespace, kubectl: Kubectl
) -> None:
    values = CI["minimal"]
    account = values["serviceAccount"]["name"]
    the_kind(kubectl)
    home.kubectl("create", "serviceaccount", account)
    roles = helm.render(
        {**values, "rbac": {"create": True}, "namespaceOverride": home.name}, release=NAME
    )
    kubectl.apply(*(m for m in roles if m["kind"] in ("ClusterRole", "ClusterRoleBinding")))
    operator = releases(home)

    try:
        install(operator, "minimal")

        namespace.create("hello", "hello").wait_until_ready()
        found = home.kubectl("get", "all,configmaps,leases", "-l", OURS, "-o", "name").split()
        assert {name.partition("/")[0] for name in found} == {
            "pod",
            "deployment.apps",
            "replicaset.apps",
        }
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", "-l", OURS)


def test_each_scenario_is_installed_here() -> None:
    names = {name.removeprefix("test_").replace("_", "-") for name in globals()}

    assert CI.keys() <= names
