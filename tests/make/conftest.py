"""What the tests of the Makefile's commands stand on: `make` itself, on the tests' own cluster.

`make e2e` runs them last: they remove every operator, and at the end OLM.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import artifacts, tools
from hack import cluster as hack_cluster
from hack.artifacts import Published
from tests.e2e import release
from tests.e2e.kube import Cluster, Kube
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.shared import cluster

__all__ = ["cluster"]

CHECKOUT = Path(__file__).parents[2]


class Make:
    """The commands of the Makefile, as a user types them."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "CLUSTER": "kind", "IMG": "", **environment}

    def __call__(self, *arguments: str, timeout: float = 420) -> str:
        """Run `make` with targets and variables; return what it printed. It must succeed."""
        ended = self._run(arguments, timeout)
        said = ended.stdout + ended.stderr
        assert ended.returncode == 0, f"make {' '.join(arguments)} failed:\n{said}"
        return said

    def refused(self, *arguments: str) -> str:
        """Run `make`, which must fail with one line that says what to do; return that line."""
        ended = self._run(arguments, 120)
        said = ended.stdout + ended.stderr
        lines = said.splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        assert ended.returncode != 0, f"make {' '.join(arguments)} was not refused:\n{said}"
        assert len(errors) == 1, said
        assert all(line.startswith("make") for line in lines[errors[0] + 1 :] if line), said
        return lines[errors[0]]

    def start(self, *arguments: str, log: Path) -> "subprocess.Popen[bytes]":
        """Start `make` in a process group of its own, as a shell does; its output goes to a log."""
        with log.open("wb") as out:
            return subprocess.Popen(
                ["make", *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
            )

    def _run(
        self, arguments: tuple[str, ...], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@pytest.fixture(scope="session")
def hack_made() -> hack_cluster.Cluster:
    """The tests' own kind cluster."""
    return hack_cluster.up(hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def kube(hack_made: hack_cluster.Cluster, cluster: Cluster) -> Kube:
    """The cluster, to talk to."""
    return Kube(cluster, tools.path("helm3"))


@pytest.fixture(scope="session")
def make() -> Make:
    """The commands, on the tests' own cluster."""
    return Make(CHECKOUT, KIND_CLUSTER_NAME=hack_cluster.TEST_NAME)


@pytest.fixture(scope="session")
def published(hack_made: hack_cluster.Cluster) -> Published:
    """What another user installs, in another namespace."""
    return artifacts.publish(hack_made)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, kube: Kube) -> Iterator[Namespace]:
    """A namespace for Messages, in a cluster that has neither an operator nor the CRD."""
    _clean(kube)
    yield from make_namespace(kube, request.node.originalname)
    _clean(kube)


@pytest.fixture
def home(request: pytest.FixtureRequest, kube: Kube, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace for another user's operator."""
    yield from make_namespace(kube, f"{request.node.originalname[:40]}-home")


def _clean(kube: Kube) -> None:
    release.clean(kube, ours=True)
    release.remove_crd(kube)
