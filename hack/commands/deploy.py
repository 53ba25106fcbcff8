"""Puts the operator, or its CRD alone, into the cluster and takes it out again.

Behind `make deploy`, `undeploy`, `install`, `uninstall` and `run`; also used by the demo. Each can
be repeated, in any order; what somebody else installed is left alone.
"""

import json
import os
import sys

from hack.commands import crd
from hack.pack import artifacts
from hack.pack.artifacts import Published
from hack.rig import base_images, tools
from hack.rig import cluster as clusters
from hack.rig.cluster import Cluster
from hack.rig.run import Argument, HackError, output
from hack.rig.steps import say, step

NAMESPACE = "message-operator"
RELEASE = "message-operator"
_OPERATORS = ("get", "deployments", "-A", "-l", "app.kubernetes.io/name=message-operator")
_TIMEOUT = "3m"


def deploy() -> None:
    """Do `make deploy`."""
    cluster = clusters.up()
    install(cluster)
    say(
        f"The operator runs in the namespace {NAMESPACE}. Declare a Message:\n"
        f"  kubectl --kubeconfig {cluster.kubeconfig} apply -f examples/hello.yaml"
    )


def install(cluster: Cluster) -> None:
    """Install the operator by Helm, or upgrade it, and wait until it is ready."""
    _refuse_others(cluster, "two would act on the same Messages")
    crd.wait_while_deleted(cluster)
    published = artifacts.publish(cluster)
    with step("The operator, by Helm") as work:
        if _is_half_done(cluster):
            # Helm refuses to touch what an interrupted run left. The CRD is kept.
            work.run(_helm_uninstall(cluster), timeout=240)
        work.run(_helm_upgrade(cluster, published), timeout=240)


def undeploy() -> None:
    """Do `make undeploy`: the CRD and the Messages stay."""
    cluster = clusters.find()
    if cluster is None:
        return
    with step("The operator's release: uninstall") as work:
        work.run(_helm_uninstall(cluster), timeout=240)
    for other in _others(cluster):
        say(f"note: the operator {other} still runs; `make deploy` did not install it.")
    if crd.is_there(cluster):
        say("The Messages and their CRD are still there; `make uninstall` deletes them all.")


def install_crd() -> None:
    """Do `make install`."""
    _install_crd(clusters.up())


def _install_crd(cluster: Cluster) -> None:
    """Apply the CRD, unless it belongs to an operator that `make deploy` did not install."""
    crd.wait_while_deleted(cluster)
    others = _others(cluster)
    if others and crd.is_there(cluster):
        say(f"note: the CRD {crd.NAME} belongs to the operator {others[0]}, and stays as it is.")
    else:
        crd.install(cluster, RELEASE, NAMESPACE)


def uninstall_crd() -> None:
    """Do `make uninstall`."""
    cluster = clusters.find()
    if cluster is None:
        return
    _refuse_others(cluster, "it serves the Messages that this command deletes")
    crd.uninstall(cluster)
    for operator in _operators(cluster):
        say(f"note: the operator {operator} still runs, and waits for the CRD: `make undeploy`.")


def run(arguments: list[str]) -> None:
    """Do `make run`: replace this process by the operator, which works on the cluster from here.

    An operator in the cluster is not stopped; both then act on the same Messages.
    """
    cluster = clusters.up()
    _install_crd(cluster)
    for operator in _operators(cluster):
        say(f"note: the operator {operator} runs, too, and both act on the same Messages.")
    image_option = []
    if cluster.registry is not None:
        image_option = [f"--message-image={base_images.busybox()}"]
    say("==> The operator, here; Ctrl-C ends it")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    command = [sys.executable, "-m", "message_operator", *image_option, *arguments]
    os.execv(command[0], command)  # noqa: S606 (in this process's place: signals reach it)


# --- Helm -------------------------------------------------------------------------------------


def _helm_upgrade(cluster: Cluster, published: Published) -> list[Argument]:
    return [
        *(*cluster.helm_command, "upgrade", "--install", RELEASE, published.chart),
        *("--namespace", NAMESPACE, "--create-namespace"),
        *("--wait", "--timeout", _TIMEOUT, "--reset-values"),
        "--take-ownership",  # of a CRD that `make install` or a former release put there
        # Helm 4 applies on the server, which tells its fields from those of `make install`.
        *(["--force-conflicts"] if _is_helm_4(cluster) else []),
        *published.options,
    ]


def _helm_uninstall(cluster: Cluster) -> list[Argument]:
    return [
        *(*cluster.helm_command, "uninstall", RELEASE, "--namespace", NAMESPACE),
        *("--ignore-not-found", "--wait", "--timeout", _TIMEOUT),
    ]


def _is_helm_4(cluster: Cluster) -> bool:
    return tools.fits("helm4", output([cluster.helm, "version", "--short"]))


def _is_half_done(cluster: Cluster) -> bool:
    """Tell whether a command of Helm's was interrupted while it worked on the release."""
    states = ("--pending", "--uninstalling")
    half_done = output([*cluster.helm_command, "list", "-n", NAMESPACE, *states, "--short"])
    return RELEASE in half_done.split()


# --- other operators --------------------------------------------------------------------------


def _operators(cluster: Cluster) -> dict[str, bool]:
    """Return the operators in the cluster, as NAMESPACE/NAME, and whether each is ours.

    Ours is the one of `make deploy`; what OLM or another release has installed is not.
    """
    items = json.loads(output([*cluster.kubectl_command, *_OPERATORS, "-o", "json"]))["items"]
    return {
        f"{meta['namespace']}/{meta['name']}": (
            (meta["namespace"], meta["name"]) == (NAMESPACE, RELEASE)
            and "olm.owner" not in meta.get("labels", {})
        )
        for meta in (item["metadata"] for item in items)
    }


def _others(cluster: Cluster) -> list[str]:
    return [name for name, ours in _operators(cluster).items() if not ours]


def _refuse_others(cluster: Cluster, why: str) -> None:
    """Raise HackError if the cluster has an operator that `make deploy` did not install."""
    for other in _others(cluster):
        namespace, _, name = other.partition("/")
        raise HackError(
            f"the cluster already has an operator, {other}, and {why}. Remove it first (helm "
            f"uninstall {name} --namespace {namespace}; one of OLM's with its Subscription and "
            "CSV), or use another cluster."
        )
