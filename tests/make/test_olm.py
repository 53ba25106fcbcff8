"""`make olm`, the tier `olm` and `make olm ARGS=down`; the last of all, for OLM is then gone."""

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import olm
from tests.e2e.kube import Kube
from tests.e2e.waiting import wait_until
from tests.make.commands import CHECKOUT, Make


def kinds(kube: Kube) -> list[str]:
    """Return OLM's kinds that the cluster knows."""
    crds, _ = kube.objects("CustomResourceDefinition")
    names = [str(crd["metadata"]["name"]) for crd in crds]
    return [name for name in names if name.endswith(".operators.coreos.com")]


def test_olm_is_put_into_the_cluster_tested_and_removed_without_a_rest(
    make: Make, kube: Kube
) -> None:
    tests = Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.NAME)  # they add -test to it

    make("olm")
    make("olm")
    assert kinds(kube)
    assert "1 passed" in tests("test", "ARGS=--tier olm -k found_through_the_api")
    make("olm", "ARGS=down")
    make("olm", "ARGS=down")

    assert kinds(kube) == []
    namespaces = (olm.NAMESPACE, olm.OPERATORS, olm.CATALOGD_NAMESPACE)
    wait_until(
        "OLM's namespaces to be gone",
        lambda: [name for name in namespaces if kube.get("Namespace", name)],
        lambda left: not left,
    )
