"""The Makefile's commands on a cluster, in every state that a person can be in.

Each ends well or with one sentence that says what to do. All can be repeated, in any order.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.cli.crd import NAMESPACE, RELEASE
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import registry, tools
from kopf_kit.testing import Installed, Kubectl
from kopf_kit.testing.requests import wait_until
from message_operator import __version__
from tests.e2e import release
from tests.e2e.messages import Namespace, Object, uid
from tests.e2e.release import Operator
from tests.make.commands import CHECKOUT, Make

#: A port that the user needs is none of the tests' business.
WITHOUT_PORTS = "--metrics-bind-address=0 --health-probe-bind-address=0"


def crd(kubectl: Kubectl) -> Any:
    return kubectl.find("crd", release.CRD)


def hold(kubectl: Kubectl, what: str, *finalizers: str) -> None:
    """Give an object these finalizers, and no others."""
    patch = json.dumps({"metadata": {"finalizers": [*finalizers] or None}})
    kubectl("patch", what, "--type=merge", "--patch", patch)


def ours(kubectl: Kubectl) -> list[str]:
    """Return all objects in the cluster that come of the chart."""
    kinds = "crd,clusterroles,clusterrolebindings,roles,deployments,serviceaccounts,services,pods"
    labels = "app.kubernetes.io/name=message-operator"
    return kubectl("get", kinds, "-A", "-l", labels, "-o", "name").split()


def operators_image(kubectl: Kubectl) -> str:
    deployment = kubectl.get("deployment", RELEASE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


@contextlib.contextmanager
def running(make: Make, log: Path) -> Iterator[None]:
    """Have `make run` for a while, then end it as Ctrl-C does."""
    process = make.start("run", f"ARGS={WITHOUT_PORTS}", log=log)
    try:
        wait_until(
            "`make run` to start the operator",
            lambda: (process.poll(), log.read_text()),
            lambda seen: seen[0] is not None or "==> The operator runs here" in seen[1],
        )
        assert process.poll() is None, log.read_text()
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
    assert "Traceback" not in log.read_text()


# --- nothing there ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["undeploy"], ["uninstall"], ["olm", "ARGS=down"]])
def test_no_cluster_is_made_to_remove_something_from_it(words: list[str]) -> None:
    name = f"none-{secrets.token_hex(4)}"
    nowhere = Make(CHECKOUT, KIND_CLUSTER_NAME=name)

    assert f"There is no cluster {name}" in nowhere(*words, timeout=60)


# --- one after the other ------------------------------------------------------------------------


def test_all_verbs_can_be_repeated_in_any_order(
    make: Make, kubectl: Kubectl, namespace: Namespace
) -> None:
    assert str(kubectl.cluster.kubeconfig) in make("cluster")
    make("uninstall")
    make("undeploy")
    wait_until("nothing to be left", lambda: ours(kubectl), lambda found: found == [])

    make("install")
    make("install")
    message = namespace.create("hello", "hello")
    make("deploy")
    make("deploy")
    pod = message.wait_until_ready()
    make("install")
    make("undeploy")
    make("undeploy")
    assert uid(message.pod()) == uid(pod)

    make("install")
    make("uninstall")
    make("uninstall")
    assert crd(kubectl) is None
    wait_until("the Pod to be gone", message.pod, lambda pod: pod is None)

    make("deploy")
    assert "kopf-kit undeploy" in make("uninstall")
    make("deploy")
    namespace.create("again", "again").wait_until_ready()
    make("undeploy", "uninstall")
    wait_until("nothing to be left", lambda: ours(kubectl), lambda found: found == [])


def test_run_serves_messages_without_the_crd_with_it_and_beside_a_deployed_operator(
    make: Make, namespace: Namespace, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    with running(make, log):
        first = namespace.create("first", "first")
        first.wait_until_ready()
    with running(make, log):
        first.edit(text="edited")
        first.wait_for_log(b"edited\n")
        assert "both act" not in log.read_text()
    make("deploy")
    with running(make, log):
        assert f"{NAMESPACE}/{RELEASE} also runs" in log.read_text()
        namespace.create("second", "second").wait_until_ready()


def test_a_crd_that_was_edited_by_hand_is_put_right_with_helm_4_on_the_path(
    kubectl: Kubectl, namespace: Namespace, tmp_path: Path
) -> None:
    (tmp_path / "helm").symlink_to(tools.path("helm4"))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    make = Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME, PATH=path)
    where = "/spec/versions/0/additionalPrinterColumns/0/description"
    by_hand = json.dumps([{"op": "replace", "path": where, "value": "by hand"}])
    edit = ("patch", "crd", release.CRD, "--type=json", "-p", by_hand)

    for verb in ("install", "deploy"):
        make("install")
        kubectl(*edit)
        make(verb)
        assert "by hand" not in json.dumps(crd(kubectl))
    make("undeploy", "uninstall")


# --- while the CRD is being deleted -------------------------------------------------------------


def test_while_a_message_holds_the_crd_each_verb_names_it_and_goes_on_once_it_is_free(
    make: Make, kubectl: Kubectl, namespace: Namespace
) -> None:
    make("install")
    former = uid(crd(kubectl))
    namespace.create("held", "held")
    hold(namespace.kubectl, "message/held", "example.org/held")

    for verb in ("uninstall", "install", "deploy", "run"):
        refusal = make.refused(verb)
        assert f"{namespace.name}/held" in refusal
        assert "Remove the finalizers" in refusal
    hold(namespace.kubectl, "message/held")

    make("install")
    assert uid(crd(kubectl)) != former


def test_install_right_after_the_crd_was_deleted_is_not_lost(
    make: Make, kubectl: Kubectl, namespace: Namespace
) -> None:
    make("install")
    namespace.create("hello", "hello")
    kubectl("delete", "crd", release.CRD, "--wait=false")

    make("install")

    found = crd(kubectl) or {}
    assert "deletionTimestamp" not in found["metadata"]


# --- what others installed ----------------------------------------------------------------------


def test_what_another_release_installed_is_left_alone(
    make: Make, kubectl: Kubectl, namespace: Namespace, home: Namespace, published: Published
) -> None:
    operator = Operator(home.kubectl, published, name="others", takes_over=False)
    operator.install()
    message = namespace.create("hello", "hello")
    pod = message.wait_until_ready()

    for verb in ("deploy", "uninstall", "demo"):
        assert f"{home.name}/others-message-operator" in make.refused(verb)
    before = crd(kubectl)
    assert "is left as it is" in make("install")
    assert f"{home.name}/others-message-operator still runs" in make("undeploy")
    assert crd(kubectl) == before
    assert uid(message.wait_until_ready()) == uid(pod)

    operator.uninstall()
    make("deploy")
    message.edit(text="edited")
    message.wait_until_ready(instead_of=pod)


def kill_helm(kubectl: Kubectl, *arguments: str, when: Callable[[Object], object]) -> None:
    """Run Helm, and kill it once the operator's Deployment is as told."""
    command = [*kubectl.cluster.helm_command, *arguments, "--namespace", NAMESPACE, "--wait"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(
        "Helm to have come to the Deployment",
        lambda: kubectl.find("deployment", RELEASE) or {},
        when,
    )
    process.kill()
    process.wait(10)


def test_deploy_takes_up_an_installation_that_was_killed(
    make: Make, kubectl: Kubectl, namespace: Namespace, published: Published
) -> None:
    missing = f"--set-string=image.digest=sha256:{'0' * 64}"
    install = ("install", RELEASE, published.chart, "--create-namespace")
    kill_helm(kubectl, *install, *published.options, missing, when=bool)

    make("deploy")

    namespace.create("hello", "hello").wait_until_ready()


def test_deploy_takes_up_an_uninstallation_that_was_killed(
    make: Make, kubectl: Kubectl, namespace: Namespace
) -> None:
    make("deploy")
    hold(kubectl, f"deployment/{RELEASE}", "example.org/slow")
    kill_helm(
        kubectl,
        *("uninstall", RELEASE),
        when=lambda deployment: "deletionTimestamp" in deployment.get("metadata", {}),
    )
    hold(kubectl, f"deployment/{RELEASE}")

    make("deploy")

    namespace.create("hello", "hello").wait_until_ready()


# --- IMG and CLUSTER ----------------------------------------------------------------------------


def test_img_names_the_image_that_is_built_pushed_and_deployed(
    make: Make, kubectl: Kubectl, namespace: Namespace
) -> None:
    repository = f"{registry.ADDRESS}/of-a-user/operator"
    image = f"IMG={repository}:{secrets.token_hex(4)}"

    assert f"with {image}, put an image" in make.refused("deploy", image)
    assert "write it in full" in make.refused("deploy", "IMG=operator:latest")
    assert f"{image} kopf-kit image build" in make.refused("docker-push", image)
    make("docker-build", image)
    make("docker-push", image)
    make("deploy", image)

    assert operators_image(kubectl).startswith(f"{repository}@sha256:")


def test_an_existing_cluster_is_used_as_it_is(
    kubectl: Kubectl, namespace: Namespace, published: Published
) -> None:
    existing = Make(
        CHECKOUT,
        CLUSTER="existing",
        KUBECONFIG=str(kubectl.cluster.kubeconfig),
        HELM_KUBECONTEXT="no-such-context",
        HELM_NAMESPACE="elsewhere",
        IMG=f"{published.image}",
        MESSAGE_IMG=published.pod_images["message"],
    )

    existing("install")
    assert "kopf-kit uninstall" in existing.refused("e2e")
    existing("deploy")
    assert operators_image(kubectl) == published.image
    for words in (["cluster-down"], ["olm"], ["olm", "ARGS=down"]):
        assert "CLUSTER=existing" in existing.refused(*words)
    existing("undeploy", "uninstall")

    passed = existing("e2e", "ARGS=-k test_names")
    assert " passed" in passed
    assert crd(kubectl) is None


# --- push ---------------------------------------------------------------------------------------

PUSHED = "pushed"


@pytest.fixture
def destination() -> str:
    """A folder of the local registry that nothing was pushed to before."""
    registry.up()
    return f"{registry.ADDRESS}/test-{secrets.token_hex(4)}/of-the-user"


@pytest.fixture
def elsewhere(home: Namespace) -> Iterator[Namespace]:
    """A namespace for a release, which is removed at the end."""
    yield home
    Installed(home.kubectl).helm("uninstall", PUSHED, "--ignore-not-found", "--wait")


def test_the_chart_that_was_pushed_needs_no_value_to_run_what_was_pushed_with_it(
    make: Make, destination: str, elsewhere: Namespace, namespace: Namespace
) -> None:
    said = make("push", "ARGS=chart", f"REGISTRY={destination}")
    chart = f"oci://{destination}/charts/message-operator"
    assert chart in said

    helm, of = Installed(elsewhere.kubectl).helm, ("--version", __version__, "--plain-http")
    helm("install", PUSHED, chart, *of, "--wait", "--timeout=5m")

    pod = namespace.create("hello", "hello").wait_until_ready()
    deployment = elsewhere.kubectl.get("deployment", f"{PUSHED}-message-operator")
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    (printer,) = pod["spec"]["containers"]
    assert operator["image"].startswith(f"{destination}/message-operator@sha256:")
    assert printer["image"].startswith(f"{destination}/busybox@sha256:")
    assert chart in helm("show", "readme", chart, *of)
