"""A developer's cluster: one that kind makes, or with CLUSTER=existing that of the kubeconfig."""

import os
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kopf_kit.rig import engine, kind, paths, public_images, registry, tools
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import say, step


def current(kubectl: Path) -> tuple[str, Path]:
    """Return the current context and its kubeconfig; raise KitError if no cluster answers."""
    files = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    file = _merged(kubectl) if os.pathsep in files else Path(files).absolute()
    ask = (kubectl, "--kubeconfig", file)
    context = answer([*ask, "config", "current-context"])
    try:
        output([*ask, "get", "--raw", "/version", "--request-timeout=5s"], timeout=15)
    except KitError as error:
        reason = str(error).rstrip().splitlines()[-1].strip()
        raise KitError(
            f"CLUSTER=existing: the cluster does not answer ({reason}). Tried kubeconfig {files}, "
            f"context {context or 'none is chosen'}. Start that cluster, choose another context "
            "(kubectl config use-context …), set KUBECONFIG, or leave CLUSTER out to have a kind "
            "cluster created for you."
        ) from error
    return context or "existing", file


def _merged(kubectl: Path) -> Path:
    """Merge the several files in KUBECONFIG into one; return its path."""
    file = paths.BUILD / "kubeconfig-existing"
    file.parent.mkdir(exist_ok=True)
    file.touch(0o600)
    file.write_text(output([kubectl, "config", "view", "--raw", "--flatten"]))
    return file


#: kind's own variable, so that several checkouts of the project can each have a cluster.
NAME = os.environ.get("KIND_CLUSTER_NAME") or paths.prefix()
#: The end-to-end tests have a cluster of their own, so they never touch what a user has created.
TEST_NAME = f"{NAME}-test"


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers, and the tools to talk to it."""

    name: str
    kubeconfig: Path
    kind: Path | None
    kubectl: Path
    helm: Path
    #: The address of the local registry on the nodes and on this machine; None if existing.
    registry: str | None
    existing: bool

    @property
    def kubectl_command(self) -> tuple[str | Path, ...]:
        """The beginning of a kubectl command for this cluster; no request waits endlessly."""
        return self.kubectl, "--kubeconfig", self.kubeconfig, "--request-timeout=60s"

    @property
    def helm_command(self) -> tuple[str | Path, ...]:
        """The beginning of a helm command for this cluster."""
        return self.helm, "--kubeconfig", self.kubeconfig

    @property
    def export(self) -> str:
        """The shell's command after which kubectl and helm are found and use this cluster."""
        programs = (self.kubectl, self.helm)
        built = [p.parent for p in programs if shutil.which(p.name) != str(p)]
        path = "".join(f"{folder}:" for folder in dict.fromkeys(built))
        found = f' PATH="{path}$PATH"' if path else ""
        return f"export KUBECONFIG={self.kubeconfig}{found}"


def is_existing() -> bool:
    """Tell whether CLUSTER selects the existing cluster; raise KitError if it is invalid."""
    value = os.environ.get("CLUSTER") or "kind"
    if value not in ("kind", "existing"):
        raise KitError(
            f"CLUSTER={value} is not valid. Use CLUSTER=existing for the cluster of your current "
            "kubeconfig, or leave CLUSTER out to have a kind cluster created for you."
        )
    return value == "existing"


def check_name(name: str) -> None:
    """Raise KitError for a name that kind refuses."""
    if not re.fullmatch(r"[a-z0-9.-]+", name):
        raise KitError(
            f"KIND_CLUSTER_NAME={name} is not valid; use lower case letters, digits, '.' and '-', "
            f"for example KIND_CLUSTER_NAME={paths.prefix()}-2"
        )


def up(name: str = NAME) -> Cluster:
    """Return a cluster that answers: within a second if it exists, else after minutes."""
    if is_existing():
        return _existing()
    check_name(name)
    public_images.choice()
    with tools.lock("cluster"):
        engine.up()
        kind.check_version()
        if not kind.is_healthy(name):
            _prepare()
            kind.create(name)
        registry.up()
        registry.join(kind.node(name))
        return Cluster(
            name=name,
            kubeconfig=kind.kubeconfig(name),
            kind=tools.path("kind"),
            kubectl=tools.path("kubectl"),
            helm=tools.path("helm"),
            registry=registry.ADDRESS,
            existing=False,
        )


def _existing() -> Cluster:
    kubectl = tools.path("kubectl")
    context, kubeconfig = current(kubectl)
    return Cluster(
        name=context,
        kubeconfig=kubeconfig,
        kind=None,
        kubectl=kubectl,
        helm=tools.path("helm"),
        registry=None,
        existing=True,
    )


def address_here(cluster: Cluster) -> str:
    """Return the address at which the API server reaches this machine; raise KitError if it can't.

    It is asked only in a cluster of this machine's own: what others use is not sent to one machine.
    """
    minified = "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    server = output([*cluster.kubectl_command, *minified]).strip()
    if not cluster.existing and (address := engine.gateway(urlsplit(server).port or 443)):
        try:
            with socket.socket() as probe:
                probe.bind((address, 0))  # the engine may run in a virtual machine
            return address
        except OSError:
            pass
    raise KitError(f"the API server {server} cannot reach this machine")


def find() -> Cluster | None:
    """Return the cluster if there is one; create none, because the caller only removes things."""
    if not is_existing():
        check_name(NAME)
        if not kind.is_there(NAME):
            say(f"There is no cluster {NAME}, so there is nothing to remove.")
            return None
    return up()


def down() -> None:
    """Delete both clusters and their registry; keep images and everything else that was built."""
    if is_existing():
        raise KitError(
            "CLUSTER=existing: `make` did not create this cluster, so it does not delete it."
        )
    check_name(NAME)
    if not shutil.which("docker"):
        say("There is no Docker engine, so there is nothing to delete.")
        return
    with tools.lock("cluster"):
        engine.up()
        with step(f"Delete the clusters {NAME} and {TEST_NAME}, and their registry") as work:
            for name in (NAME, TEST_NAME):
                if kind.is_there(name):
                    kind.delete(name, work)
                kind.kubeconfig(name).unlink(missing_ok=True)
            registry.down()


def _prepare() -> None:
    """Get everything that a new cluster needs: compile and download at the same time.

    The downloads include what the operator's image and the Pods need later.
    """
    if not public_images.are_in_reach():
        kind.built_image()
    elif missing := tools.missing():
        if tools.is_installed():
            say(
                f"    {', '.join(missing)}: not on the PATH in a suitable version, so built from "
                "source in a few minutes; to avoid that, interrupt this and install what is missing"
            )
        tools.built(*missing)
