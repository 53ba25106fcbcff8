"""A cluster for every target of the Makefile: `up()` gives it, whatever the machine has.

With CLUSTER=existing it is the one of the current kubeconfig, and nothing is ever created or
deleted; else it is kind's, with the local registry beside it. Used by `python -m hack
cluster`, by the demo and deploy commands, and by the end-to-end tests.
"""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from hack.rig import (
    base_images,
    cache,
    durations,
    engine,
    existing,
    golang,
    node_image,
    paths,
    preflight,
    public_images,
    registry,
    steps,
    tools,
)
from hack.rig.run import HackError, answer, output
from hack.rig.steps import Step, say, step, together

#: kind's own variable: several checkouts of the project may each have a cluster.
NAME = os.environ.get("KIND_CLUSTER_NAME") or "message-operator"
#: The end-to-end tests' own cluster: they neither need nor touch what a user has in the other.
TEST_NAME = f"{NAME}-test"
#: Seconds that a cluster may take to answer before it is created again; a busy machine is slow.
_PATIENCE = 60.0
#: In the node: says that the cluster was made to the end.
_COMPLETE = "/kind/complete"
_RESOLV_CONF = "/kind/resolv.conf"
#: The addresses of Services: kind's default.
_SERVICES = "10.96.0.0/16"
_READY = '{.items[0].status.conditions[?(@.type=="Ready")].status}'


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers, and the tools to talk to it."""

    name: str
    kubeconfig: Path
    kind: Path | None
    kubectl: Path
    helm: Path
    #: The local registry, as nodes and this machine name it; None for an existing cluster.
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


def is_existing() -> bool:
    """Tell whether CLUSTER asks for the cluster that is there; refuse what it cannot mean."""
    value = os.environ.get("CLUSTER") or "kind"
    if value not in ("kind", "existing"):
        raise HackError(
            f"CLUSTER={value} means nothing here. Say CLUSTER=existing for the cluster of your "
            "current kubeconfig, or leave it out for a kind cluster that is made for you."
        )
    return value == "existing"


def up(name: str = NAME) -> Cluster:
    """Return a cluster that answers; a second where it is there, minutes where it is made."""
    if is_existing():
        return _existing()
    with steps.plan(durations.CLUSTER), cache.lock("cluster"):
        engine.up()
        if not _is_well(name):
            _prepare()
            _create(name)
        registry.up()
        registry.join(_node(name))
        return Cluster(
            name=name,
            kubeconfig=_kubeconfig(name),
            kind=tools.path("kind"),
            kubectl=tools.path("kubectl"),
            helm=tools.path("helm"),
            registry=registry.ADDRESS,
            existing=False,
        )


def _existing() -> Cluster:
    kubectl = tools.path("kubectl")
    context, kubeconfig = existing.current(kubectl)
    return Cluster(
        name=context,
        kubeconfig=kubeconfig,
        kind=None,
        kubectl=kubectl,
        helm=tools.path("helm"),
        registry=None,
        existing=True,
    )


def find() -> Cluster | None:
    """Return the cluster if there is one: to remove something from it, none is made."""
    if not is_existing() and not _is_there(NAME):
        say(f"There is no cluster {NAME}, so there is nothing to remove.")
        return None
    return up()


def down() -> None:
    """Delete both clusters and their registry; images and other parts that were built stay."""
    if is_existing():
        raise HackError(
            "CLUSTER=existing: this cluster was not made here, so it is not deleted here."
        )
    if not shutil.which("docker"):
        say("There is no Docker engine here, so there is nothing to delete.")
        return
    with cache.lock("cluster"):
        engine.up()
        with step(f"Delete the clusters {NAME} and {TEST_NAME}, and their registry") as work:
            for name in (NAME, TEST_NAME):
                if _is_there(name):
                    _delete(name, work)
                _kubeconfig(name).unlink(missing_ok=True)
            registry.down()


# --- kind -------------------------------------------------------------------------------------


def _node(name: str) -> str:
    """Return the container that is the cluster's node."""
    return f"{name}-control-plane"


def _is_there(name: str) -> bool:
    """Tell whether a cluster was made, be it running or not."""
    if not shutil.which("docker"):
        return False
    engine.up()
    return engine.container(_node(name), "{{.Id}}") is not None


def _kubeconfig(name: str) -> Path:
    return paths.BUILD / f"{name}.kubeconfig"


def _is_well(name: str) -> bool:
    """Tell whether the cluster is there and answers; say why not where it was there once.

    A node that was stopped with its engine does not come back reliably: its address, and with
    it its certificates, may have changed, and its Pods are those of another boot. So only one
    that has run without a break since it was made is taken as well.
    """
    form = "{{.State.Running}} {{.State.StartedAt}} {{.Created}} {{.Config.Image}}"
    state = engine.container(_node(name), form)
    if state is None:
        return False
    running, started, created, image = state.split()
    pause = datetime.fromisoformat(started[:19]) - datetime.fromisoformat(created[:19])
    if running != "true":
        say(f"    the cluster {name} was stopped; it is created again")
        return False
    if pause > timedelta(minutes=1):
        say(f"    the cluster {name} was stopped with its engine; it is created again")
        return False
    if node_image.is_outdated(image):
        say(f"    the cluster {name} runs {image}; it is created again")
        return False
    if not engine.docker("exec", _node(name), "find", "/kind", "-path", _COMPLETE).strip():
        say(f"    the cluster {name} was never completed; it is created again")
        return False
    _write_kubeconfig(name)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ready = answer([*_kubectl(name), "get", "nodes", "-o", f"jsonpath={_READY}"], timeout=15)
        if ready == "True":
            return True
        time.sleep(1)
    say(f"    the cluster {name} does not answer; it is created again")
    return False


def _prepare() -> None:
    """Get all that a new cluster needs, doing at the same time what waits for different things.

    What the operator's image and the Pods need later is fetched here, too, while the
    processors are busy with Kubernetes.
    """
    if public_images.are_in_reach():
        steps.skip(durations.BUILT)
        if missing := tools.missing():
            say(
                f"    {', '.join(missing)}: not on the PATH in a version that fits, so built here "
                "from source, in some minutes; to save them, interrupt this and install what is "
                "missing"
            )
            golang.programs(missing)
        return

    def compile_programs() -> None:
        golang.programs([*tools.missing(), *node_image.PROGRAMS])

    def fetch_packages() -> None:
        node_image.fetch_packages()
        registry.fetch_packages()
        base_images.fetch_packages()

    if not engine.has_image(node_image.reference()):
        preflight.check(preflight.ROOM)
        say(
            "    all images are built here instead, of Debian packages and Go modules: "
            f"{public_images.BUILD_TIME} on two processors, once"
        )
        golang.go()
        together(compile_programs, fetch_packages)
        node_image.make()


def _create(name: str) -> None:
    kind = tools.path("kind")
    paths.BUILD.mkdir(exist_ok=True)
    with (
        step(f"kind cluster ({name})") as work,
        tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".kind.") as folder,
    ):
        _delete(name, work)
        config = Path(folder) / "kind.yaml"
        config.write_text(yaml.safe_dump(_configuration()))
        # The node's container comes right after its image.
        with public_images.explained(
            "docker.io/kindest/node", lambda: engine.has_container(_node(name))
        ):
            work.run(
                [
                    *(kind, "create", "cluster", "--name", name, "--config", config),
                    *("--kubeconfig", _kubeconfig(name), "--wait", "3m"),
                ],
                timeout=public_images.LIMIT,
            )
        _keep_in_services(name, work)
        work.run(
            [
                *(*_kubectl(name), "-n", "kube-system", "rollout", "status"),
                *("deployment/coredns", "--timeout=3m"),
            ],
            timeout=200,
        )
        work.run(["docker", "exec", _node(name), "touch", _COMPLETE], timeout=30)


def _keep_in_services(name: str, work: Step) -> None:
    """Have the node refuse what is sent to a Service's address before kube-proxy knows it.

    It would leave the cluster, and a network that answers for any address keeps the connection: an
    API server once asked such a one for the APIs of OLM, for ever. kube-proxy changes the
    address of what it knows before these rules are asked.
    """
    for chain in ("OUTPUT", "FORWARD"):
        rule = ("-d", _SERVICES, "-j", "REJECT")
        work.run(["docker", "exec", _node(name), "iptables", "-w", "-A", chain, *rule], timeout=30)


def _configuration() -> dict[str, object]:
    """Return kind's configuration: its defaults, or a node of the image that is made here."""
    networking: dict[str, object] = {"serviceSubnet": _SERVICES}
    # A machine may have the first version of cgroups only, which still works.
    kubelet: dict[str, object] = {"kind": "KubeletConfiguration", "failCgroupV1": False}
    # kubeadm gives the API server a minute to come up, which is little on a busy machine.
    init = {"kind": "InitConfiguration", "timeouts": {"kubernetesAPICall": "5m0s"}}
    node: dict[str, object] = {"role": "control-plane"}
    if not public_images.are_in_reach():
        networking["disableDefaultCNI"] = True  # the node image brings a simple one
        # The node's own resolver is Docker's, on a loopback address that no Pod can reach.
        kubelet["resolvConf"] = _RESOLV_CONF
        node["image"] = node_image.make()
        node["extraMounts"] = [{"hostPath": str(_resolv_conf()), "containerPath": _RESOLV_CONF}]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "kubeadmConfigPatches": [yaml.safe_dump(kubelet), yaml.safe_dump(init)],
        "nodes": [node],
    }


def _resolv_conf() -> Path:
    """Write the name servers that Pods can reach: this machine's, but for loopback ones."""
    places = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
    lines = [
        line
        for place in map(Path, places)
        if place.exists()
        for line in place.read_text().splitlines()
        if line.startswith("nameserver ") and not line.split()[1].startswith(("127.", "::1"))
    ]
    if not lines:  # CoreDNS wants one; names of the cluster work without
        lines = ["nameserver 192.0.2.1"]
    file = paths.BUILD / "resolv.conf"
    file.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
    return file


def _delete(name: str, work: Step) -> None:
    command = (tools.path("kind"), "delete", "cluster", "--name", name)
    work.run([*command, "--kubeconfig", _kubeconfig(name)], timeout=180)


def _write_kubeconfig(name: str) -> None:
    """Give this checkout the cluster's kubeconfig, made perhaps from another checkout."""
    config = output([tools.path("kind"), "get", "kubeconfig", "--name", name])
    file = _kubeconfig(name)
    if not file.exists() or file.read_text() != config:
        file.parent.mkdir(exist_ok=True)
        file.touch(0o600)
        file.write_text(config)


def _kubectl(name: str) -> tuple[str | Path, ...]:
    kubeconfig = _kubeconfig(name)
    return (tools.path("kubectl"), "--kubeconfig", kubeconfig, "--request-timeout=10s")
