"""Builds the booking service and installs it in the kind cluster, with a token for the operator.

    uv run python -m booking.install

The end-to-end tests install it the same way. Elsewhere, build the image of `Dockerfile`, push it to
your registry, and install the chart with `--set image=…`; it needs two Secrets, as here.
"""

import json
import secrets
import subprocess
import sys
from pathlib import Path

from kopf_kit.testing import (
    Cluster,
    Installed,
    KitError,
    Kubectl,
    cluster_up,
    in_node,
    push_image,
)

HERE = Path(__file__).parent
#: Where it is: with the operator's default settings, the operator finds it there.
NAMESPACE = RELEASE = "booking"
#: The operator's namespace by Helm, and the Secret there that has the token.
OPERATOR, TOKEN = "flightticket-operator", "booking-token"
#: The Secret with the tokens that the service accepts.
TOKENS = "booking-tokens"
#: The folder of the database, in the node: kind itself does not promise a StorageClass.
_FOLDER = "/var/lib/booking"


def install(cluster: Cluster, operator: str = OPERATOR) -> None:
    """Build it, install it by Helm with a new token, and wait until it is ready.

    `operator` is the operator's namespace.
    """
    ref = push_image(cluster, "flightticket-booking", HERE / "Dockerfile")
    in_node(cluster, "install", "-d", "-m", "777", _FOLDER)
    apply = (*cluster.kubectl_command, "apply", "-f", "-")  # into two namespaces
    manifests = json.dumps(_manifests(secrets.token_urlsafe(), operator))
    subprocess.run(apply, input=manifests, text=True, timeout=90, check=True)  # noqa: S603
    Installed(Kubectl(cluster, NAMESPACE)).helm(
        *("upgrade", "--install", RELEASE, str(HERE / "chart"), "--wait", "--timeout=3m"),
        f"--set-string=image={ref},database.storageClassName={RELEASE}",
    )


def remove(cluster: Cluster) -> None:
    """Remove it with its database and tokens; the operator's token goes with its namespace."""
    delete = ("delete", "--ignore-not-found", "--timeout=180s")
    for name in (("namespace", NAMESPACE), ("persistentvolume", RELEASE)):
        Kubectl(cluster, NAMESPACE)(*delete, *name)
    in_node(cluster, "rm", "-rf", _FOLDER)


def _manifests(token: str, operator: str) -> dict[str, object]:
    """Return all that the two charts need: namespaces, the token on both sides, and a volume."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    volume = {
        "storageClassName": RELEASE,
        "capacity": {"storage": "100Mi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": _FOLDER, "type": "Directory"},
    }
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            *(_core("Namespace", name, labels=restricted) for name in (NAMESPACE, operator)),
            secret(NAMESPACE, TOKENS, tokens=token),
            secret(operator, TOKEN, token=token),
            {**_core("PersistentVolume", RELEASE), "spec": volume},
        ],
    }


def secret(namespace: str, name: str, **content: str) -> dict[str, object]:
    """Return the manifest of a Secret."""
    return {**_core("Secret", name, namespace=namespace), "stringData": content}


def _core(kind_: str, name: str, **metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind_, "metadata": {"name": name, **metadata}}


def _main() -> None:
    try:
        install(cluster_up())
    except KitError as error:
        sys.exit(f"error: {error}; elsewhere, install the chart in {HERE / 'chart'} yourself")
    print(f"The booking service runs in the namespace {NAMESPACE}. Install the operator:")
    print("  make deploy")


if __name__ == "__main__":
    _main()
