"""Install, upgrade, roll back, uninstall, install again: with Helm 3 and with Helm 4."""

import json
from dataclasses import replace

import pytest

from kopf_kit.release.artifacts import Published
from kopf_kit.rig import tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.testing import Kubectl
from kopf_kit.testing.requests import wait_until
from tests.e2e import release
from tests.e2e.chart.conftest import OLDER, Releases
from tests.e2e.messages import WAIT, Namespace, restarts, uid
from tests.e2e.release import Operator


def helms(*quick: str) -> pytest.MarkDecorator:
    """Try a step with Helm 3 and with Helm 4, those that are not named in `make test-all` alone."""
    return pytest.mark.parametrize(
        "helm",
        [
            pytest.param(helm, marks=() if helm in quick else pytest.mark.long)
            for helm in ("helm3", "helm4")
        ],
        indirect=True,
    )


@pytest.fixture
def helm(request: pytest.FixtureRequest) -> str:
    """Helm 3 or Helm 4."""
    name: str = request.param
    return name


@pytest.fixture
def cluster(e2e_cluster: Cluster, helm: str) -> Cluster:
    """The cluster, with one of the two Helms."""
    return replace(e2e_cluster, helm=tools.path(helm))


def knows_intervals(kubectl: Kubectl) -> bool:
    """Tell whether the kind in the cluster is that of this chart, not of the previous one."""
    crd = kubectl.get("crd", release.CRD)
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    return "intervalSeconds" in schema["properties"]["spec"]["properties"]


def chart_version(operator: Operator) -> str:
    """Return the version of the chart that is installed in the operator's namespace."""
    (found,) = json.loads(operator.helm("list", "-o", "json"))
    return str(found["chart"]).rpartition("-")[2]


@helms("helm4")
@pytest.mark.usefixtures("without_kind")
def test_an_upgrade_and_a_rollback_leave_running_messages_alone(
    releases: Releases,
    home: Namespace,
    namespace: Namespace,
    previous: Published,
    published: Published,
    kubectl: Kubectl,
) -> None:
    operator = releases(home, published=previous)
    operator.install()
    kept, edited = (namespace.create(name, "before") for name in ("kept", "edited"))
    pod, former = kept.wait_until_ready(), edited.wait_until_ready()
    (old,) = operator.pods()
    assert chart_version(operator) == OLDER
    assert not knows_intervals(kubectl)

    operator.upgrade(to=published)

    (new,) = operator.wait_until_ready()
    assert uid(new) != uid(old)
    wait_until("the kind to be upgraded", lambda: knows_intervals(kubectl), bool)
    edited.edit(intervalSeconds=1)
    second = edited.wait_until_ready(instead_of=former)
    edited.wait_for_log(b"before\nbefore\n")

    operator.rollback()

    (again,) = operator.wait_until_ready()
    assert uid(again) not in (uid(old), uid(new))
    assert chart_version(operator) == OLDER
    wait_until("the kind to be as before", lambda: not knows_intervals(kubectl), bool)
    edited.edit(text="after")
    edited.wait_until_ready(instead_of=second)
    edited.wait_for_log(b"after\n")
    found = kept.wait_until_ready()
    assert (uid(found), restarts(found)) == (uid(pod), 0)


#: What an uninstallation leaves of a release: the kind, and the roles to work with it.
KEPT = {
    f"customresourcedefinition.apiextensions.k8s.io/{release.CRD}",
    *(
        f"clusterrole.rbac.authorization.k8s.io/{release.CRD}-{r}"
        for r in ("view", "edit", "admin")
    ),
}


def left(operator: Operator) -> set[str]:
    """Return what there is of a release, Helm's own record of it included."""
    kinds = (
        "deployment",
        "replicaset",
        "pod",
        "service",
        "poddisruptionbudget",
        "networkpolicy",
        "serviceaccount",
        "role",
        "rolebinding",
        "configmap",
        "secret",
    )
    wide = ("clusterrole", "clusterrolebinding", "customresourcedefinition")
    ours = ("-o", "name", "-l", f"app.kubernetes.io/instance={operator.name}")
    helms = ("-o", "name", "-l", f"owner=helm,name={operator.name}")
    get = operator.kubectl
    return {
        *get("get", ",".join(wide), *ours).split(),
        *get("get", ",".join(kinds), *ours).split(),
        *get("get", "secrets", *helms).split(),
    }


@helms()  # who has its kind afterwards is asked of an API server by kopf-kit
@pytest.mark.usefixtures("without_kind")
def test_uninstalled_it_leaves_messages_which_a_reinstallation_adopts(
    releases: Releases, home: Namespace, namespace: Namespace
) -> None:
    operator = releases(home, takes_over=False)
    operator.install()
    deleted, kept, edited = (
        namespace.create(name, "before") for name in ("deleted", "kept", "edited")
    )
    deleted.wait_until_ready()
    pod, former = kept.wait_until_ready(), edited.wait_until_ready()

    operator.uninstall()

    wait_until("all but the kind and its roles to be gone", lambda: left(operator), KEPT.__eq__)
    assert uid(kept.pod()) == uid(pod)
    namespace.kubectl("delete", "message", "deleted", WAIT)
    deleted.wait_until_gone()
    edited.edit(text="after")
    late = namespace.create("late", "late")

    operator.install()

    late.wait_until_ready()
    edited.wait_until_ready(instead_of=former)
    edited.wait_for_log(b"after\n")
    adopted = kept.wait_until_ready()
    assert (uid(adopted), restarts(adopted)) == (uid(pod), 0)
