"""Creates and deletes the kind cluster, and makes the certificates of servers in it."""

import json
import os
import shutil
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kopf_kit.rig import control_plane, engine, paths, preflight, public_images, tools, versions
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import Step, say, step


def secret(name: str, namespace: str, service: str, work: Step) -> dict[str, Any]:
    """Return the Secret that cert-manager would create for a Service in the same namespace."""
    host = f"{service}.{namespace}.svc"
    key, crt = certificate(f"DNS:{host}", host, work)
    data = {"tls.key": key, "tls.crt": crt, "ca.crt": crt}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def certificate(alternative: str, host: str, work: Step) -> tuple[str, str]:
    """Return a key and a certificate that it signed, for a host by its alternative name."""
    preflight.install("Certificates", ["openssl"], needs=("openssl",))
    with tempfile.TemporaryDirectory() as folder:
        key, crt = Path(folder) / "tls.key", Path(folder) / "tls.crt"
        work.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "3650"),
                *("-subj", f"/CN={host}", "-addext", f"subjectAltName={alternative}"),
                *("-keyout", key, "-out", crt),
            ],
            timeout=60,
        )
        return key.read_text(), crt.read_text()


#: Seconds that a cluster may take to answer before it is recreated; a busy machine is slow.
_PATIENCE = 60.0
#: Seconds for which the API server of a new cluster has to answer without a break.
_STEADY = 5.0
#: A file in the node, which marks the cluster as complete.
_COMPLETE = "/kind/complete"
_RESOLV_CONF = "/kind/resolv.conf"
#: The address range of Services, kind's default.
_SERVICES = "10.96.0.0/16"
_READY = '{.items[0].status.conditions[?(@.type=="Ready")].status}'


def node(name: str) -> str:
    """Return the name of the container that is the cluster's node."""
    return f"{name}-control-plane"


def is_there(name: str) -> bool:
    """Return whether a cluster exists, running or not."""
    if not shutil.which("docker"):
        return False
    engine.up()
    return engine.container(node(name), "{{.Id}}") is not None


def kubeconfig(name: str) -> Path:
    """Return the path of this checkout's kubeconfig of the cluster."""
    return paths.BUILD / f"{name}.kubeconfig"


def check_version() -> None:
    """Raise KitError if KUBERNETES names a version of which no node can be made here."""
    minor = control_plane.chosen()
    if minor != versions.NEWEST and not public_images.are_in_reach():
        raise KitError(
            f"KUBERNETES={minor}: a cluster of that version is made of kind's image, which cannot "
            f"be pulled here; leave KUBERNETES out, for a cluster of {versions.NEWEST}"
        )
    if minor not in versions.NODES:
        raise KitError(
            f"KUBERNETES={minor}: kind {versions.KIND} has no image of that version, which the "
            f"tier `matrix` alone runs; choose {', '.join(versions.NODES)}"
        )


def is_healthy(name: str) -> bool:
    """Return whether the cluster exists and answers; print why not if it existed before.

    A node that was stopped with its engine does not restart reliably: its address, and with it the
    certificates, may have changed, and its Pods are from another boot. So a cluster counts as well
    only if its node has run without a break since its creation.
    """
    form = "{{.State.Running}} {{.State.StartedAt}} {{.Created}} {{.Config.Image}}"
    state = engine.container(node(name), form)
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
    if _is_other_version(image):
        say(f"    the cluster {name} runs {image}; it is created again")
        return False
    if not engine.docker("exec", node(name), "find", "/kind", "-path", _COMPLETE).strip():
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


def _is_other_version(image: str) -> bool:
    """Tell whether a node runs another Kubernetes than KUBERNETES chooses, or is built here."""
    built = f"{paths.prefix()}/node:"
    if image.startswith(built) and not image.startswith(f"{built}{versions.KUBERNETES}-"):
        return True
    if os.environ.get("KUBERNETES"):
        return f":v{control_plane.chosen()}." not in image
    return image in versions.NODES.values()


def create(name: str) -> None:
    """Create the cluster; replace an existing one."""
    program = tools.path("kind")
    paths.BUILD.mkdir(exist_ok=True)
    with (
        step(f"kind cluster ({name})") as work,
        tempfile.TemporaryDirectory(dir=paths.cache(), prefix=".kind.") as folder,
    ):
        delete(name, work)
        config = Path(folder) / "kind.yaml"
        config.write_text(json.dumps(_configuration()))
        work.run(
            [
                *(program, "create", "cluster", "--name", name, "--config", config),
                *("--kubeconfig", kubeconfig(name), "--wait", "3m"),
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
        _await_steady(name)
        work.run(["docker", "exec", node(name), "touch", _COMPLETE], timeout=30)


def _await_steady(name: str) -> None:
    """Wait until the API server of a new cluster has answered for some seconds without a break.

    One that was ready, on a machine that had just woken, went once more a second later, and took
    with it the first command that a user sent.
    """
    deadline = time.monotonic() + _PATIENCE
    since = None
    while since is None or time.monotonic() < since + _STEADY:
        if answer([*_kubectl(name), "get", "--raw", "/readyz"], timeout=15) == "ok":
            since = since or time.monotonic()
        elif time.monotonic() > deadline:
            raise KitError(
                f"the API server of the new cluster {name} comes and goes; `docker exec "
                f"{node(name)} crictl ps -a` shows what restarts. Run the command again."
            )
        else:
            since = None
        time.sleep(0.5)


def _keep_in_services(name: str, work: Step) -> None:
    """Make the node reject packets to a Service's address that kube-proxy does not know yet.

    They would leave the cluster, and some networks answer for any address and keep the connection.
    Such a network once left the API server waiting indefinitely on OLM's API. For Services that it
    knows, kube-proxy changes the address before these rules apply.
    """
    for chain in ("OUTPUT", "FORWARD"):
        rule = ("-d", _SERVICES, "-j", "REJECT")
        work.run(["docker", "exec", node(name), "iptables", "-w", "-A", chain, *rule], timeout=30)


def _configuration() -> dict[str, object]:
    """Return kind's configuration: its defaults, or another image of the node.

    That is the one that KUBERNETES chooses, or the one that is built here.
    """
    networking: dict[str, object] = {"serviceSubnet": _SERVICES}
    # A machine may have only cgroups v1, which still works.
    kubelet: dict[str, object] = {"kind": "KubeletConfiguration", "failCgroupV1": False}
    # kubeadm gives the API server a minute to come up, which is little on a busy machine.
    init = {"kind": "InitConfiguration", "timeouts": {"kubernetesAPICall": "5m0s"}}
    node: dict[str, object] = {"role": "control-plane"}
    if public_images.are_in_reach():
        if os.environ.get("KUBERNETES"):
            node["image"] = versions.NODES[control_plane.chosen()]
    else:
        networking["disableDefaultCNI"] = True  # the node image brings a simple one
        # The node's own resolver is Docker's, on a loopback address that no Pod can reach.
        kubelet["resolvConf"] = _RESOLV_CONF
        node["image"] = built_image()
        node["extraMounts"] = [{"hostPath": str(_resolv_conf()), "containerPath": _RESOLV_CONF}]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "kubeadmConfigPatches": [json.dumps(kubelet), json.dumps(init)],
        "nodes": [node],
    }


def _resolv_conf() -> Path:
    """Write a file with this machine's DNS servers, except those on loopback; return its path."""
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


def built_image() -> str:
    """Return the name of a node's image that is built here, and build the missing tools with it."""
    return tools.builder("the node's image cannot be pulled:").node(tools.missing())


def delete(name: str, work: Step) -> None:
    """Delete the cluster if it exists."""
    command = (tools.path("kind"), "delete", "cluster", "--name", name)
    work.run([*command, "--kubeconfig", kubeconfig(name)], timeout=180)


def _write_kubeconfig(name: str) -> None:
    """Write this checkout's kubeconfig for the cluster, which another checkout may have created."""
    config = output([tools.path("kind"), "get", "kubeconfig", "--name", name])
    file = kubeconfig(name)
    if not file.exists() or file.read_text() != config:
        file.parent.mkdir(exist_ok=True)
        file.touch(0o600)
        file.write_text(config)


def _kubectl(name: str) -> tuple[str | Path, ...]:
    return (tools.path("kubectl"), "--kubeconfig", kubeconfig(name), "--request-timeout=10s")
