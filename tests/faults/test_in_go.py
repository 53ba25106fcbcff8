"""The operator in Go beside the one in Python: the commands of docs/in-go.md, and its roles."""

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing import api_server
from kopf_kit.testing.kubelet import Kubelet
from kopf_kit.testing.requests import connected
from kopf_offline import golang
from tests.docs.reader import Reader
from tests.support.console import blocks

pytestmark = pytest.mark.long  # no change of the runtime or the kit reaches it
PAGE = "docs/in-go.md"
#: The ServiceAccount of config/manager.yaml.
ACCOUNT = "system:serviceaccount:message-operator-go:controller-manager"
#: With the flags of our other Go programs, so that no library is compiled twice.
_GOFLAGS = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with api_server.running(users=(ACCOUNT,)) as plane:
        plane.start_controllers(*api_server.CONTROLLERS)
        yield plane


@pytest.fixture
def reader(plane: ControlPlane, tmp_path: Path) -> Iterator[Reader]:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").symlink_to(tools.path("kubectl"))
    (programs / "go").symlink_to(golang.go())
    with Reader.here(
        programs,
        KUBECONFIG=str(plane.kubeconfig(ADMIN)),
        GOFLAGS=_GOFLAGS,
        CGO_ENABLED="0",
        GOTOOLCHAIN="local",
    ) as reader:
        yield reader


async def test_the_page_runs_both_operators_and_deploys_the_one_in_go(
    plane: ControlPlane, reader: Reader
) -> None:
    """Its last command removes the operator, whose roles then let a process of it work."""
    page = blocks((CHECKOUT / PAGE).read_text())
    async with connected(plane) as cluster, Kubelet(cluster, "default").running():
        for block in page:
            await asyncio.to_thread(reader.follow, block.steps, at=f"{PAGE}:{block.line}")
        await asyncio.to_thread(_works_as_deployed, reader, plane)


async def test_the_memcached_in_go_is_run_by_its_command(reader: Reader) -> None:
    """Its kind has one version here, so nobody has to convert."""
    await asyncio.to_thread(
        reader.prepares,
        "make -C examples/in-go run-memcached >build/in-go-memcached.log 2>&1 &",
        "until kubectl get memcacheds 2>/dev/null; do sleep 1; done",
        "kubectl apply -f examples/memcached/examples/sample.yaml",
        "kubectl wait --for=create deployment/sample --timeout=300s",
        "kubectl wait --for=jsonpath='{.spec.replicas}'=2 deployment/sample",
        "kubectl wait --for=condition=Available memcached/sample --timeout=60s",
        "kill $! && wait",
    )


def _works_as_deployed(reader: Reader, plane: ControlPlane) -> None:
    roles = "kubectl apply -f examples/in-go/config/manager.yaml"
    account = shlex.quote(str(plane.kubeconfig(ACCOUNT)))
    reader.prepares(
        roles,
        f"KUBECONFIG={account} build/in-go -workers=10 -slim >build/in-go.log 2>&1 &",
        "kubectl apply -f examples/interval.yaml",
        "kubectl wait --for=jsonpath='{.status.phase}'=Processed message/interval --timeout=60s",
        "kubectl delete message/interval",
        "kubectl wait --for=delete pod/msg-interval --timeout=2m",
        "kill $! && wait",
    )
    refused = (CHECKOUT / "build" / "in-go.log").read_text()
    assert "forbidden" not in refused, refused
