"""The operators in a cluster: the one from `kopf-kit deploy`, and those of somebody else.

Used by the commands that install something in a cluster or remove it.
"""

import json

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import KitError, output

#: Where `kopf-kit deploy` installs the operator.
NAMESPACE = RELEASE = PROJECT.name
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
