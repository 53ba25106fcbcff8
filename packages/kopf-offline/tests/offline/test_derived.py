"""kopf_offline.derived: the Go module to build programs in follows from their releases."""

import hashlib
import json
from pathlib import Path

import pytest

from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError
from kopf_offline import derived

GO_MOD = """module k8s.io/kubernetes

go 1.24.0

require (
\tgithub.com/google/cel-go v0.26.0
\tk8s.io/api v0.0.0
\tk8s.io/sample-apiserver v0.0.0
\tk8s.io/utils v0.0.0-20250604170112-4c0f3b243397
)

require (
\tcel.dev/expr v0.24.0 // indirect
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver
)
"""
WANTED = """module derived

go 1.26.3

require (
\tgithub.com/google/cel-go v0.26.0
\tk8s.io/utils v0.0.0-20250604170112-4c0f3b243397
\tcel.dev/expr v0.24.0
\tk8s.io/api v0.34.4
\tk8s.io/kubernetes v1.34.4
)
replace k8s.io/api => k8s.io/api v0.34.4
"""
SUMS = [
    "cel.dev/expr v0.24.0 h1:e=",
    "k8s.io/api v0.34.4 h1:a=",
    "k8s.io/api v0.34.4/go.mod h1:am=",
    "k8s.io/kubernetes v1.34.4 h1:k=",
    "k8s.io/kubernetes v1.34.4/go.mod h1:km=",
]
WRITTEN = "".join(f"{line}\n" for line in SUMS)
HASHES = " ".join(
    (hashlib.sha256(WRITTEN.encode()).hexdigest(), hashlib.sha256(WANTED.encode()).hexdigest()[:16])
)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for Go, which downloads a release and the one library that it takes from staging."""
    release = tmp_path / "release"
    release.mkdir()
    (release / "go.mod").write_text(GO_MOD)
    (release / "go.sum").write_text(f"{SUMS[0]}\n")
    said = {
        "k8s.io/kubernetes@v1.34.4": {"Sum": "h1:k=", "GoModSum": "h1:km=", "Dir": str(release)},
        "k8s.io/api@v0.34.4": {"Sum": "h1:a=", "GoModSum": "h1:am="},
    }
    go = tmp_path / "go"
    lines = ["#!/bin/sh", "shift 3", 'for each; do case "$each" in']
    for name, answer in said.items():
        path, _, version = name.partition("@")
        text = json.dumps({"Path": path, "Version": version, **answer}, indent=4)
        lines.append(f"{name}) echo '{text}' ;;")
    go.write_text("\n".join([*lines, '*) echo "$each is not served" >&2; exit 1 ;;', "esac; done"]))
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return go


def pin(monkeypatch: pytest.MonkeyPatch, version: str, hashes: str) -> None:
    release = derived.Derived((f"k8s.io/kubernetes {version}",), hashes)
    monkeypatch.setitem(derived.PINNED, "older/1.34", release)


def test_the_release_s_own_libraries_and_checksums_are_taken(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, "v1.34.4", HASHES)

    folder = derived.module("older/1.34", go)

    assert (folder / "go.mod").read_text() == WANTED
    assert (folder / "go.sum").read_text() == WRITTEN


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("v1.34.4", rf"of older/1\.34 in .* have the hashes `{HASHES}`, but `0{{64}}` is"),
        ("v1.34.5", r"k8s\.io/kubernetes@v1\.34\.5 is not served"),
    ],
)
def test_what_is_not_served_or_other_sources_than_those_that_are_pinned_are_refused(
    go: Path, monkeypatch: pytest.MonkeyPatch, version: str, why: str
) -> None:
    pin(monkeypatch, version, "0" * 64)

    with pytest.raises(KitError, match=why):
        derived.module("older/1.34", go)

    assert [each for each in paths.cache().iterdir() if "older" in each.name] == []


def test_a_module_of_several_releases_takes_the_newer_libraries_and_all_checksums(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = {}
    cases = ("one", "v1.9.0", "v2.0.0-rc.1", "two"), ("two", "v1.10.0", "v2.0.0", "three")
    for name, library, late, replaced in cases:
        folder = releases[name] = tmp_path / name
        folder.mkdir()
        (folder / "go.mod").write_text(
            f"module {name}\n\nrequire library {library}\nrequire late {late}\n\n"
            f"require (\n\t{replaced} v1.0.0\n\tpkg.package-operator.run/boxcutter v0.1.0\n)\n\n"
            f"replace (\n\t{replaced} => ../{replaced}\n)\n"
        )
        (folder / "go.sum").write_text(f"library {library} h1:l=\n")

    def downloaded(_: Path, __: Path, *modules: str) -> list[dict[str, str]]:
        return [
            {"Path": path, "Version": version, "Sum": "h1:s=", "GoModSum": "h1:m="}
            | {"Dir": str(releases.get(path))}
            for path, version in (module.split() for module in modules)
        ]

    monkeypatch.setattr(derived, "_downloaded", downloaded)
    ones = ("one v1.0.0", "two v1.0.0")
    monkeypatch.setitem(derived.PINNED, "some", derived.Derived(ones, "0" * 64))
    with pytest.raises(KitError, match=r"of some in .* have the hashes `\w{64} \w{16}`") as refused:
        derived.module("some", go)
    found = str(refused.value).split("`")[1]
    monkeypatch.setitem(derived.PINNED, "some", derived.Derived(ones, found))
    with monkeypatch.context() as changed:
        changed.setattr(derived, "_order", str)  # v1.9.0 is then after v1.10.0
        with pytest.raises(KitError, match=f"`{found[:64]} .*, but `{found}` is"):
            derived.module("some", go)

    folder = derived.module("some", go)

    required = set((folder / "go.mod").read_text().partition("(\n")[2].splitlines()[:-1])
    ours = {f"\t{name} v1.0.0" for name in ("one", "two", "three")}
    assert required == {*ours, "\tlibrary v1.10.0", "\tlate v2.0.0"}
    sums = (folder / "go.sum").read_text().splitlines()
    assert {line.split()[0] for line in sums} == {"library", "one", "two", "three"}
    assert len(sums) == 8
