"""Puts the operator, or its CRD alone, into the cluster and takes it out again.

`python -m hack deploy|undeploy|crd|run`, and the demo and the end-to-end tests. On the kind
cluster everything comes from the local registry, as it comes to a user from a public one: the
image, the chart, the message Pods' image.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from hack import base_images, cluster, image, paths, registry
from hack.cluster import Cluster
from hack.run import HackError, answer, output, say, step
from message_operator import __version__

NAMESPACE = "message-operator"
RELEASE = "message-operator"
CRD = "messages.myorg.dev"
_SOURCE = paths.CHECKOUT / "charts" / "message-operator"
_TIMEOUT = "3m"


@dataclass(frozen=True)
class Published:
    """What an installation needs: the chart, and the values that name the images."""

    chart: str
    #: Options of helm: how to reach the chart, and --set for each image.
    options: tuple[str, ...]
    #: The message Pods' image; None: the one that the chart has.
    message_image: str | None
    #: The operator's image, by its digest; None: IMG, or the one that the chart has.
    image: str | None = None


def publish(made: Cluster) -> Published:
    """Build the operator's image and put all that is installed into the local registry.

    On an existing cluster nothing is published: IMG names an image that it can pull, else it
    pulls the release's.
    """
    if made.registry is None:
        ref = os.environ.get("IMG")
        return Published(str(_SOURCE), _image_values("image", ref) if ref else (), None)
    ref = pinned(image.push(image.build()))
    message_image = base_images.busybox()
    chart = _push_chart(made)
    options = (
        "--plain-http",
        *_image_values("image", ref), *_image_values("messagePod.image", message_image),
    )  # fmt: skip
    return Published(chart, options, message_image, ref)


def pinned(ref: str) -> str:
    """Return the image by its digest: a tag that was pushed anew would not be pulled anew."""
    found = answer(["docker", "image", "inspect", "-f", '{{join .RepoDigests "\\n"}}', ref]) or ""
    repository = ref.rpartition(":")[0]
    return next((d for d in found.splitlines() if d.startswith(f"{repository}@")), ref)


def _image_values(where: str, ref: str) -> tuple[str, ...]:
    """Return helm's options that set an image, given as REGISTRY/REPOSITORY[:TAG|@DIGEST]."""
    name, _, digest = ref.partition("@")
    host, _, rest = name.partition("/")
    if not rest:
        raise HackError(f"IMG={ref} names no registry; say it in full, as docker.io/you/name:tag")
    repository, _, tag = rest.partition(":")
    values = {"registry": host, "repository": repository, "tag": tag, "digest": digest}
    return tuple(f"--set-string={where}.{key}={value}" for key, value in values.items())


def _push_chart(made: Cluster) -> str:
    """Push the chart to the local registry; return its reference, by digest for the same reason."""
    collection = f"oci://{registry.ADDRESS}/charts"
    with step("Chart into the registry") as work:
        work.run([made.helm, "package", _SOURCE, "--destination", paths.BUILD], timeout=60)
        package = paths.BUILD / f"message-operator-{__version__}.tgz"
        work.run([made.helm, "push", package, collection, "--plain-http"], timeout=60)
    digest = registry.digest(f"charts/message-operator:{__version__}")
    return f"{collection}/message-operator@{digest}"


def install(made: Cluster, published: Published) -> None:
    """Install the operator by Helm, or upgrade it, and wait until it is ready."""
    with step("The operator, by Helm") as work:
        if _half_installed(made):
            # Helm refuses to touch what an interrupted run left pending. The CRD is kept.
            work.run([*helm(made), "uninstall", RELEASE, "--namespace", NAMESPACE], timeout=120)
        work.run(
            [
                *helm(made), "upgrade", "--install", RELEASE, published.chart,
                "--namespace", NAMESPACE, "--create-namespace",
                "--wait", "--timeout", _TIMEOUT, "--reset-values",
                "--take-ownership",  # of a CRD that `make install` put there before
                *published.options,
            ],
            timeout=240,
        )  # fmt: skip


def _half_installed(made: Cluster) -> bool:
    pending = output([*helm(made), "list", "--namespace", NAMESPACE, "--pending", "--short"])
    return RELEASE in pending.split()


def helm(made: Cluster) -> tuple[str | Path, ...]:
    """Return the beginning of a helm command for this cluster."""
    return made.helm, "--kubeconfig", made.kubeconfig


def kubectl(made: Cluster) -> tuple[str | Path, ...]:
    """Return the beginning of a kubectl command for this cluster; no request waits for ever."""
    return made.kubectl, "--kubeconfig", made.kubeconfig, "--request-timeout=60s"


def deploy() -> None:
    """Do `make deploy`."""
    made = cluster.up()
    install(made, publish(made))
    say(f"The operator runs in the namespace {NAMESPACE}. Declare a Message:\n"
        f"  kubectl --kubeconfig {made.kubeconfig} apply -f examples/hello.yaml")  # fmt: skip


def undeploy() -> None:
    """Do `make undeploy`: the CRD and the Messages stay."""
    made = cluster.up()
    with step("The operator's release, away") as work:
        work.run(
            [*helm(made), "uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found",
             "--wait", "--timeout", _TIMEOUT], timeout=240,
        )  # fmt: skip
    say("The Messages and their CRD are still there; `make uninstall` deletes them all.")


def install_crd() -> Cluster:
    """Do `make install`: apply the chart's CRD, and nothing else."""
    made = cluster.up()
    manifest = output(
        [*helm(made), "template", RELEASE, _SOURCE, "--namespace", NAMESPACE,
         "--validate", "--show-only", "templates/crd.yaml"], timeout=60,
    )  # fmt: skip
    with step(f"CRD {CRD}") as work:
        work.run(
            [*kubectl(made), "apply", "--server-side", "--force-conflicts", "-f", "-"],
            timeout=90, stdin=manifest.encode(),
        )  # fmt: skip
        work.run(
            [*kubectl(made), "wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s"],
            timeout=90,
        )
    return made


def uninstall_crd() -> None:
    """Do `make uninstall`: delete the CRD, and with it every Message and its Pod."""
    made = cluster.up()
    with step(f"CRD {CRD} and every Message, away") as work:
        work.run(
            [*kubectl(made), "delete", "crd", CRD, "--ignore-not-found", "--timeout=120s"],
            timeout=150,
        )


def run(arguments: list[str]) -> int:
    """Do `make run`: the operator in this process's place, against the cluster; gives its end.

    It stops an operator that runs in the cluster by no means: two would work side by side.
    """
    made = install_crd()
    found = answer([*kubectl(made), "get", "deployments", "-A", "-o", "name",
                    "-l", "app.kubernetes.io/name=message-operator"])  # fmt: skip
    if found:
        say("note: an operator is deployed in this cluster, too; `make undeploy` removes it.")
    image_option = []
    if made.registry is not None:
        image_option = [f"--message-image={base_images.busybox()}"]
    say("==> The operator, here; Ctrl-C ends it")
    os.environ["KUBECONFIG"] = str(made.kubeconfig)
    command = [sys.executable, "-m", "message_operator", *image_option, *arguments]
    os.execv(command[0], command)  # noqa: S606 (in this process's place: signals reach it)
