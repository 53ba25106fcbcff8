"""kopf_offline.golang: what is missing is built together, once."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kopf_kit.rig import paths, tools, versions
from kopf_kit.rig.run import KitError
from kopf_offline import compiler, derived, golang


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Stand in for the compiler: write files of Go's names, and keep what each run built."""
    runs: list[set[str]] = []

    def build(
        work: object,
        go: Path,
        folder: Path,
        flags: Sequence[str],
        packages: Sequence[str],
        to: Path,
        architecture: str | None,
    ) -> None:
        runs.append(set(packages))
        for program in golang.PROGRAMS.values():
            if program.package in packages:
                (to / program.file).write_text(f"{program.package} {architecture or ''}".strip())

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiler, "build", build)
    monkeypatch.setattr(golang, "go", lambda: Path("go"))
    monkeypatch.setattr(derived, "module", lambda name, _: Path(name))
    return runs


def test_programs_are_built_together_and_once(runs: list[set[str]]) -> None:
    kind, etcd = golang.programs(["kind", "etcd"])

    assert kind.read_text() == "sigs.k8s.io/kind"
    assert etcd.read_text() == "go.etcd.io/etcd/server/v3"
    assert golang.programs(["etcd", "kind"]) == [etcd, kind]
    assert runs == [{"sigs.k8s.io/kind", "go.etcd.io/etcd/server/v3"}]


def test_programs_of_several_modules_are_all_built_those_of_one_together(
    runs: list[set[str]],
) -> None:
    kind, cosign, etcd = golang.programs(["kind", "cosign", "etcd"])

    assert cosign.read_text() == "./cosign"
    assert kind.parent == etcd.parent != cosign.parent
    assert runs == [{"sigs.k8s.io/kind", "go.etcd.io/etcd/server/v3"}, {"./cosign"}]


def test_only_what_is_missing_is_built(runs: list[set[str]]) -> None:
    golang.program("kind")
    golang.programs(["kind", "pause"])

    assert runs == [{"sigs.k8s.io/kind"}, {"./pause"}]


def test_the_programs_of_a_node_are_one_file_under_several_names(runs: list[set[str]]) -> None:
    kubelet, kubeadm, kubectl = golang.programs(["kubelet", "kubeadm", "kubectl"])

    assert (kubelet.name, kubeadm.name) == ("kubelet", "kubeadm")
    assert kubelet.resolve() == kubeadm.resolve() != kubectl.resolve()
    assert len(runs) == 1


def test_an_older_kubernetes_is_built_beside_the_newest(runs: list[set[str]]) -> None:
    newest, controllers = tools.kubernetes(
        versions.NEWEST, "kube-apiserver", "kube-controller-manager"
    )
    [server] = tools.kubernetes(versions.OLDEST, "kube-apiserver")

    assert newest.resolve() == controllers.resolve()
    assert (server.name, server.parent == newest.parent) == (
        f"kube-apiserver-{versions.OLDEST}",
        False,
    )
    assert runs == [{"./kubernetes"}, {"k8s.io/kubernetes/cmd/kube-apiserver"}]


def test_each_etcd_is_built_with_its_etcdutl(runs: list[set[str]]) -> None:
    etcd, etcdutl = tools.etcd("3.6", "etcd", "etcdutl")
    [newest] = tools.etcd(versions.NEWEST_ETCD, "etcd")

    assert (etcd.name, etcdutl.name, newest.name) == ("etcd-3.6", "etcdutl-3.6", "etcd")
    server = "go.etcd.io/etcd/server/v3"
    assert runs == [{server, "go.etcd.io/etcd/etcdutl/v3"}, {server}]


def test_programs_whose_files_have_one_name_do_not_meet(runs: list[set[str]]) -> None:
    helm, helm4 = golang.programs(["helm", "helm4"])

    assert "v3" in helm.read_text()
    assert "v4" in helm4.read_text()


def test_a_program_for_another_architecture_lies_beside_ours(runs: list[set[str]]) -> None:
    ours = golang.PROGRAMS["opm"]
    foreign = golang.program("opm", {"opm": replace(ours, architecture="arm64")})

    assert foreign.read_text() == f"{ours.package} arm64"
    assert golang.program("opm").read_text() == ours.package


def test_a_build_that_fails_leaves_no_program(
    runs: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compiler.build

    def fail(*arguments: object) -> None:
        whole(*arguments)  # type: ignore[arg-type]
        raise KitError("the linker says no")

    monkeypatch.setattr(compiler, "build", fail)
    with pytest.raises(KitError, match="linker"):
        golang.program("kind")
    monkeypatch.setattr(compiler, "build", whole)

    golang.program("kind")

    assert len(runs) == 2


def test_the_go_of_the_environment_is_used_where_the_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go version go1.26.8 linux/amd64\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    golang.go.cache_clear()

    assert golang.go() == go
    golang.go.cache_clear()


def test_a_machine_without_go_where_no_lock_has_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(paths, "LOCK", tmp_path / "requirements.txt")
    golang.go.cache_clear()

    with pytest.raises(KitError, match=r"nor is Go 1\.\d+\.\d+ or newer.* install them, or Go"):
        golang.go()
