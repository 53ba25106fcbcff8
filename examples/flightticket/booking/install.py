"""Builds the booking service and installs it in the kind cluster, with a token for the operator.

    uv run python -m booking.install

The end-to-end tests install it the same way. Elsewhere, build the image of `Dockerfile`, push it to
your registry, and install the chart with `--set image=…`; it needs two Secrets, as here.
"""

import json
import secrets
import sys
from pathlib import Path

from kopf_kit.pack import image
from kopf_kit.pack.references import pinned
from kopf_kit.rig import cluster as clusters
from kopf_kit.rig import command, engine, kind, registry
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import HackError
from kopf_kit.rig.steps import say, step

HERE = Path(__file__).parent
#: Where it is: with the operator's default settings, the operator finds it there.
NAMESPACE = RELEASE = "booking"
#: The operator's namespace, and the Secret there that has the token.
OPERATOR, TOKEN = "flightticket-operator", "booking-token"
#: The Secret with the tokens that the service accepts.
TOKENS = "booking-tokens"
#: The folder of the database, in the node: kind itself does not promise a StorageClass.
_FOLDER = "/var/lib/booking"


def install(cluster: Cluster) -> None:
    """Build it, install it by Helm with a new token, and wait until it is ready."""
    if cluster.existing:
        raise HackError(
            "the booking service is built for the kind cluster; for yours, push its image to a "
            f"registry and install the chart {HERE / 'chart'} (--set image=…)"
        )
    ref = image.push(
        image.build(f"{registry.ADDRESS}/flightticket-booking:dev", HERE / "Dockerfile")
    )
    with step("The booking service, by Helm") as work:
        _in_node(cluster, "install", "-d", "-m", "777", _FOLDER)
        apply = (*cluster.kubectl_command, "apply", "-f", "-")
        work.run(apply, timeout=90, stdin=json.dumps(_manifests(secrets.token_urlsafe())).encode())
        work.run(
            [
                *(*cluster.helm_command, "upgrade", "--install", RELEASE, HERE / "chart"),
                *("--namespace", NAMESPACE, "--wait", "--timeout=3m"),
                f"--set-string=image={pinned(ref)},database.storageClassName={RELEASE}",
            ],
            timeout=240,
        )


def remove(cluster: Cluster) -> None:
    """Remove it with its database and tokens; the operator's token goes with its namespace."""
    with step("The booking service: remove") as work:
        delete = (*cluster.kubectl_command, "delete", "--ignore-not-found", "--timeout=180s")
        work.run([*delete, "namespace", NAMESPACE], timeout=200)
        work.run([*delete, "persistentvolume", RELEASE], timeout=200)
        _in_node(cluster, "rm", "-rf", _FOLDER)


def _in_node(cluster: Cluster, *arguments: str) -> None:
    engine.docker("exec", kind.node(cluster.name), *arguments)


def _manifests(token: str) -> dict[str, object]:
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
            *(_core("Namespace", name, labels=restricted) for name in (NAMESPACE, OPERATOR)),
            secret(NAMESPACE, TOKENS, tokens=token),
            secret(OPERATOR, TOKEN, token=token),
            {**_core("PersistentVolume", RELEASE), "spec": volume},
        ],
    }


def secret(namespace: str, name: str, **content: str) -> dict[str, object]:
    """Return the manifest of a Secret."""
    return {**_core("Secret", name, namespace=namespace), "stringData": content}


def _core(kind_: str, name: str, **metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind_, "metadata": {"name": name, **metadata}}


def _main() -> None:
    cluster = clusters.up()
    install(cluster)
    say(
        f"The booking service runs in the namespace {NAMESPACE}. Install the operator:\n"
        "  make deploy"
    )


if __name__ == "__main__":
    sys.exit(command.execute(_main))
