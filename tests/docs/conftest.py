"""What the pages' readers have: the tests' own cluster, with the operator or without it."""

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import dockerfiles, engine, kind, public_images, registry, tools
from kopf_kit.rig.cluster import Cluster
from kopf_kit.rig.run import CommandError
from kopf_kit.testing import Kubectl
from kopf_offline import golang
from tests.docs.reader import CHECKOUT, Reader
from tests.docs.readings import not_run
from tests.e2e import release
from tests.make.commands import Make

#: The namespaces that pages and their situations make.
_NAMESPACES = (
    *("tutorial", "team", "team-a", "team-b", "blue", "blue-operator", "other", "argocd"),
)
#: kubectl waits for half a minute by default, which is little on a busy machine.
_KUBECTL = """\
#!/bin/sh
case " $* " in *" wait "*) set -- "$@" --timeout=5m ;; esac
exec {kubectl} "$@"
"""


@pytest.fixture(scope="session")
def make() -> Make:
    """The commands, on the tests' own cluster."""
    return Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME)


@pytest.fixture
def reader(e2e_cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """Somebody with a shell, and the programs of the pages."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(_KUBECTL.format(kubectl=e2e_cluster.kubectl))
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    for program in ("helm", "kind"):
        (tmp_path / program).symlink_to(tools.path(program))
    (tmp_path / "kubeconform").symlink_to(golang.program("kubeconform"))
    (tmp_path / "go").symlink_to(golang.go())
    with Reader.here(
        tmp_path,
        KUBECONFIG=str(e2e_cluster.kubeconfig),
        KIND_CLUSTER_NAME=e2e_cluster.name,
    ) as somebody:
        yield somebody


@pytest.fixture
def without_operator(e2e_cluster: Cluster) -> Iterator[None]:
    """A cluster with neither an operator nor the CRD, before and after."""
    _clean(e2e_cluster)
    _name_busybox(e2e_cluster)
    yield
    _clean(e2e_cluster)


@pytest.fixture(scope="session")
def demo(e2e_cluster: Cluster, make: Make) -> Iterator[str]:
    """What `make demo` prints, on a cluster that had neither an operator nor the CRD."""
    _clean(e2e_cluster)
    _name_busybox(e2e_cluster)  # which the operator in Go runs
    yield make("demo")
    _clean(e2e_cluster)


def _name_busybox(made: Cluster) -> None:
    """Give the node the image that message Pods run by default, if it cannot pull it.

    The kubelet remembers by its digest what it pulled itself, and would pull it again under
    another name. So the digest has to be another one.
    """
    if public_images.are_in_reach():
        return
    image = f"{registry.ADDRESS}/library/busybox"
    registry.crane("mutate", dockerfiles.busybox(), "--label=of=docs-test", "-t", image)
    command = ("exec", kind.node(made.name), "ctr", "--namespace=k8s.io", "images")
    engine.docker(*command, "pull", "--hosts-dir=/etc/containerd/certs.d", f"{image}:latest")
    engine.docker(*command, "tag", "--force", f"{image}:latest", public_images.BUSYBOX)


def _clean(cluster: Cluster) -> None:
    kubectl = Kubectl(cluster, "default")
    kubectl("uncordon", "--selector=kubernetes.io/os=linux")
    with suppress(CommandError):  # a reading that ended early left finalizers
        nobody = ("--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        for message in kubectl.get("messages", "-A")["items"]:
            where = message["metadata"]
            kubectl("patch", "message", where["name"], "-n", where["namespace"], *nobody)
    release.clean(cluster)
    kubectl("delete", "crd", "notes.example.com", "--ignore-not-found")
    kubectl("delete", "namespace", release.NAME, *_NAMESPACES, "--ignore-not-found")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the blocks that are not run, with their reasons."""
    terminalreporter.section("console blocks that are not run")
    for page, block in not_run():
        terminalreporter.line(f"{page}:{block.line}: {block.reason}")
