"""On OpenShift nothing has to be set; admission policies do here what its `restricted-v2` does."""

import json
from collections.abc import Iterator

import pytest
import yaml

from hack.pack import bundle
from hack.rig import cluster as hack_cluster
from tests.e2e.kube import CommandError, Kube, Object
from tests.e2e.messages import Namespace
from tests.e2e.release import Operator
from tests.e2e.waiting import wait_until
from tests.support import policies


def group_is_served(kube: Kube) -> bool:
    try:
        return bool(kube.raw("/apis/security.openshift.io"))
    except CommandError:
        return False


def asked(namespace: Namespace) -> str:
    """Return what a new Pod would become, or why it is refused."""
    probe = json.dumps(policies.probe())
    try:
        return namespace.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=probe)
    except CommandError as error:
        return str(error)


def apply(kube: Kube, *manifests: Object) -> None:
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))


@pytest.fixture
def openshift(
    hack_made: hack_cluster.Cluster, kube: Kube, operator: Operator, namespace: Namespace
) -> Iterator[Namespace]:
    """A namespace of a cluster that looks like OpenShift and assigns users as it does."""
    if hack_made.existing:
        pytest.skip("this test makes the cluster look like OpenShift: only a cluster of our own")
    if "mutatingadmissionpolicies" not in kube.raw(policies.ROOT):
        pytest.skip("Kubernetes before 1.36 serves no MutatingAdmissionPolicy")
    users = policies.assigns_users(namespace.name)
    ranges = policies.refuses_other_users(namespace.name)
    said = f"{policies.UID_RANGE}={policies.FIRST}/{policies.SIZE}"
    try:
        with operator.stopped():
            apply(kube, policies.OPENSHIFT_KIND)
            kube.kubectl("annotate", "namespace", namespace.name, said)
            wait_until("OpenShift's group", lambda: group_is_served(kube), bool)
            apply(kube, *users)
            wait_until(
                "users to be assigned", lambda: asked(namespace), lambda a: policies.SEEN in a
            )
            apply(kube, *ranges)
            wait_until(
                "other users to be refused",
                lambda: asked(namespace),
                lambda answer: "ValidatingAdmissionPolicy" in answer,
            )
        yield namespace
    finally:
        with operator.stopped():
            everything = yaml.safe_dump_all([*ranges, *users, policies.OPENSHIFT_KIND])
            kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=everything)
            wait_until("OpenShift's group to go", lambda: not group_is_served(kube), bool)


@pytest.mark.long
def test_the_bundle_s_example_runs_as_the_user_that_openshift_assigns(openshift: Namespace) -> None:
    file = bundle.BUNDLE / "manifests" / f"{bundle.NAME}.clusterserviceversion.yaml"
    csv = yaml.safe_load(file.read_text())
    example = json.loads(csv["metadata"]["annotations"]["alm-examples"])[0]

    openshift.kubectl("create", "-f", "-", stdin=json.dumps(example))

    message = openshift.message(example["metadata"]["name"])
    message.wait_until_ready()
    user = openshift.kubectl("exec", message.pod_name, "--", "/bin/sh", "-c", "id -u")
    assert user.strip() == str(policies.FIRST)
    message.wait_for_log(example["spec"]["text"].encode())
