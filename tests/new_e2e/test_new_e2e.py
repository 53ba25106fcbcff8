"""What `make new` writes passes its own `make e2e` at once; the tier `new_e2e` runs this.

The new repository makes a kind cluster of its own for it, and removes it again.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.rig import engine, tools
from tests.make.commands import CHECKOUT, Make

#: No author's cluster has this name, because the one of these tests is deleted.
NAME = "untouched-operator"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """A new repository, as an author gets it; its clusters go in any case."""
    folder = tmp_path_factory.mktemp("new") / NAME
    answers = (f"NAME={NAME}", "KIND=Cache", "GROUP=cache.example.com", f"DIR={folder}")
    Make(CHECKOUT)("new", *answers, timeout=1500)
    repository = Make(folder, KIND_CLUSTER_NAME="")
    yield repository
    repository("cluster-down")


@pytest.fixture(scope="module")
def tested(repository: Make) -> str:
    """What `make e2e` says there."""
    return repository("e2e", timeout=1700)


def containers() -> list[str]:
    """Return the containers that the new repository has on this machine."""
    names = engine.docker("container", "ls", "--all", "--format", "{{.Names}}").splitlines()
    return sorted(name for name in names if name.startswith(NAME))


def unlike_written(repository: Make) -> str:
    """Return what differs from what `make new` wrote, all of which it staged."""
    listed = ("git", "ls-files", "--modified", "--others", "--exclude-standard")
    return subprocess.check_output(listed, cwd=repository.folder, text=True, timeout=60)


def kubeconfigs(repository: Make) -> list[Path]:
    return list((repository.folder / "build").glob("*.kubeconfig"))


def test_it_passes_its_end_to_end_tests_without_an_edit(repository: Make, tested: str) -> None:
    assert " 4 passed in " in tested
    assert unlike_written(repository) == ""


def test_these_leave_nothing_in_the_cluster(repository: Make, tested: str) -> None:
    (kubeconfig,) = kubeconfigs(repository)
    command = [str(tools.path("kubectl")), f"--kubeconfig={kubeconfig}", "--request-timeout=60s"]
    kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings"

    listed = subprocess.check_output(
        [*command, "get", kinds, "--output=name"], text=True, timeout=120
    ).splitlines()

    assert "namespace/default" in listed
    assert [name for name in listed if NAME in name or "cache" in name] == []


def test_cluster_down_leaves_nothing_on_the_machine(repository: Make, tested: str) -> None:
    assert containers() == [f"{NAME}-registry", f"{NAME}-test-control-plane"]

    repository("cluster-down")

    assert containers() == []
    assert kubeconfigs(repository) == []
    assert unlike_written(repository) == ""
