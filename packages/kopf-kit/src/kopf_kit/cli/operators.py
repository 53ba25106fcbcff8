"""The operators in a cluster: the one from `kopf-kit deploy`, and those of somebody else.

Used by the commands that install something in a cluster or remove it.
"""

import json

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import Argument, KitError, output
from kopf_kit.rig.steps import say, step

#: Where `kopf-kit deploy` installs the operator.
NAMESPACE = RELEASE = PROJECT.name
#: The annotation with the replicas that a paused Deployment gets back.
_PAUSED = "kopf-kit/paused-replicas"
_OPERATORS = ("get", "deployments", "-A", "-l", f"app.kubernetes.io/name={PROJECT.name}")


def operators(cluster: Cluster) -> dict[str, bool]:
    """Return the operators in the cluster, as NAMESPACE/NAME, and whether each is ours.

    Ours is the one from `kopf-kit deploy`; one installed by OLM or by another release is not.
    """
    items = json.loads(output([*cluster.kubectl_command, *_OPERATORS, "-o", "json"]))["items"]
    return {
        f"{meta['namespace']}/{meta['name']}": (
            (meta["namespace"], meta["name"]) == (NAMESPACE, RELEASE)
            and "olm.owner" not in meta.get("labels", {})
        )
        for meta in (item["metadata"] for item in items)
    }


def others(cluster: Cluster) -> list[str]:
    """Return the operators that `kopf-kit deploy` did not install."""
    return [name for name, ours in operators(cluster).items() if not ours]


def refuse_others(cluster: Cluster, why: str) -> None:
    """Raise KitError if the cluster has an operator that `kopf-kit deploy` did not install."""
    for other in others(cluster):
        namespace, _, name = other.partition("/")
        raise KitError(
            f"the cluster already has an operator, {other}, and {why}. Remove it first (helm "
            f"uninstall {name} --namespace {namespace}; if OLM installed it, delete its "
            "Subscription and CSV), or use another cluster."
        )


def pause(cluster: Cluster) -> None:
    """Scale the operator from `kopf-kit deploy` to 0, if there is one; wait until it has ended."""
    replicas, paused = _replicas(cluster)
    if paused is not None:
        say(
            f"note: another `kopf-kit dev` left the operator {NAMESPACE}/{RELEASE} paused; this "
            f"one gives it its replicas back at its end: {paused}."
        )
    elif replicas:
        with step(f"The operator {NAMESPACE}/{RELEASE}: pause") as work:
            work.run(_scale(cluster, 0, str(replicas)), timeout=90)
            pods = ("pods", "-l", f"app.kubernetes.io/name={PROJECT.name}", "--timeout=60s")
            gone = ("wait", "-n", NAMESPACE, "--for=delete", *pods)
            work.run([*cluster.kubectl_command, *gone], timeout=90)


def resume(cluster: Cluster) -> None:
    """Give the operator its replicas back if `pause` took them, and say so."""
    _, paused = _replicas(cluster)
    if paused is not None:
        output(_scale(cluster, paused, None))
        say(f"The operator {NAMESPACE}/{RELEASE} is no longer paused: replicas {paused}.")


def _replicas(cluster: Cluster) -> tuple[int, int | None]:
    """Return the replicas of the operator from `kopf-kit deploy`, and those that `pause` took."""
    ask = ("get", "deployment", RELEASE, "-n", NAMESPACE, "--ignore-not-found", "-o", "json")
    deployment = json.loads(output([*cluster.kubectl_command, *ask]) or "{}")
    paused = deployment.get("metadata", {}).get("annotations", {}).get(_PAUSED)
    return deployment.get("spec", {}).get("replicas", 0), None if paused is None else int(paused)


def _scale(cluster: Cluster, replicas: int, paused: str | None) -> list[Argument]:
    patch = {"metadata": {"annotations": {_PAUSED: paused}}, "spec": {"replicas": replicas}}
    where = ("patch", "deployment", RELEASE, "-n", NAMESPACE, "--type=merge")
    return [*cluster.kubectl_command, *where, f"--patch={json.dumps(patch)}"]
