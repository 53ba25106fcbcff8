"""Versions: those of Kubernetes agree, and what is found on the PATH is judged rightly."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.rig import tools, versions
from kopf_kit.rig.run import KitError
from kopf_offline import derived, entry, golang


@pytest.mark.long  # Go downloads the releases
def test_every_library_of_the_newest_kubernetes_is_of_its_version() -> None:
    libraries = versions.KUBERNETES.replace("v1.", "v0.")
    text = (derived.module("go", golang.go()) / "go.mod").read_text()
    replaced = re.findall(r"(k8s\.io/\S+) => \1 (\S+)", text)

    assert len(replaced) > 25
    assert {version for _, version in replaced} == {libraries}


def test_no_version_is_missing_between_those_that_are_proved() -> None:
    minors = [int(minor.removeprefix("1.")) for minor in versions.PROVED]

    assert minors == list(range(minors[0], minors[-1] + 1))


def test_each_version_is_of_the_minor_version_that_it_is_listed_as() -> None:
    for minor, version in (versions.ETCDS | versions.OLDER).items():
        assert versions.minor(version) == minor
    assert versions.ETCDS[versions.NEWEST_ETCD] == versions.ETCD


@pytest.mark.parametrize(
    ("tool", "said", "fits"),
    [
        ("kind", "kind v0.33.0 go1.26.8 linux/amd64", True),
        ("kind", "kind v0.20.0 go1.20.4 linux/amd64", False),
        ("kubectl", "Client Version: v1.36.1\nKustomize Version: v5.7.1", True),
        ("kubectl", "Client Version: v1.34.4-dispatcher\nKustomize Version: v5.5.0", False),
        ("helm", "v3.9.4+gdbc6d8e", False),
        ("helm", "v4.3.1+gdbc6d8e", True),
        ("helm", "v5.0.0+gdbc6d8e", False),
        ("helm3", "v4.3.1+gdbc6d8e", False),
        ("helm4", "v3.22.0+gdbc6d8e", False),
        ("crane", "v0.19.0", False),
        ("cosign", "GitVersion:    v3.1.3\nGitCommit:     0123", True),
        ("cosign", "GitVersion:    v2.6.0\nGitCommit:     0123", False),
        ("helm", "error: no such flag", False),
        ("helm", None, False),
    ],
)
def test_a_tool_is_taken_from_the_path_only_where_its_version_fits(
    tool: str, said: str | None, fits: bool
) -> None:
    assert tools.fits(tool, said) is fits


@pytest.mark.parametrize(
    ("said", "recent"),
    [
        ("go version go1.26.6 linux/amd64", True),
        ("go version go1.27rc1 linux/amd64", True),
        ("go version go1.26.2 linux/amd64", False),
        (None, False),
    ],
)
def test_an_old_go_is_not_used(said: str | None, recent: bool) -> None:
    assert golang.recent(said) is recent


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tools._fitting.cache_clear()
    yield tmp_path
    tools._fitting.cache_clear()


@pytest.mark.parametrize("name", ["helm", "helm4"])
def test_a_helm_4_serves_as_helm_and_as_helm_4(path: Path, name: str) -> None:
    helm = path / "helm"
    helm.write_text("#!/bin/sh\necho v4.3.1+gabc\n")
    helm.chmod(0o755)

    assert tools.path(name) == helm


def test_a_tool_that_does_not_fit_is_built(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helm = path / "helm"
    helm.write_text("#!/bin/sh\necho v2.17.0+gabc\n")
    helm.chmod(0o755)
    monkeypatch.setattr(entry, "programs", lambda names: [Path(f"built/{each}") for each in names])

    assert tools.paths_of("helm3", "crane", "opm") == [
        Path("built/helm"),
        Path("built/crane"),
        Path("built/opm"),
    ]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ["helm"],
            r"this needs helm 3\.18 or newer, below 5\.0 \(\S+/helm is v2\.17\.0\): put it on "
            r"the PATH \(https://helm\.sh/docs/intro/install\), or install kopf-offline "
            r"\(`uv add --dev kopf-offline`, or with pip\), which builds it",
        ),
        (
            ["kind", "helm"],
            r"this needs kind 0\.31 or newer, below 1\.0 and helm .* PATH "
            r"\(https://kind\S+ and https://helm\S+\), or install",
        ),
        (["etcd"], r"this needs etcd v\d\S+: put it on the PATH or into .* KUBEBUILDER_ASSETS, or"),
        (["olm-validate"], r"this needs olm-validate v0\.\d+\.\d+: install kopf-offline \("),
        (["kube-apiserver-1.35"], r"this needs kube-apiserver-1\.35 v1\.35\.\d+: install"),
    ],
)
def test_what_is_missing_is_told_in_a_sentence_where_nothing_builds_it(
    path: Path, names: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    helm = path / "helm"
    helm.write_text("#!/bin/sh\necho v2.17.0+gabc\n")
    helm.chmod(0o755)
    monkeypatch.setattr(tools, "is_installed", lambda: False)

    with pytest.raises(KitError, match=f"^{sentence}"):
        tools.paths_of(*names)


def test_what_builds_has_all_that_the_kit_asks_for() -> None:
    asked: tools.Builder = entry  # for the type checker

    assert tools.builder("nothing:") is asked
    assert versions.PROGRAMS.keys() == {*golang.PROGRAMS, *golang.KUBERNETES}
