"""Go modules that follow from releases of others; `kopf_offline.golang` builds programs in them.

A release pins its libraries itself, in the go.mod and go.sum of its module. So the module to build
it in is derived from it, or from several of them; the hash of its go.sum, which has the checksums
of all sources, pins it. `kopf_offline.older` does so for Kubernetes.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import tools
from kopf_offline import older

_RECIPES = Path(__file__).resolve().parent
_ETCD = "go.etcd.io/etcd/{}/v3 {}"


@dataclass(frozen=True)
class Derived:
    """What a module is derived from: releases, as `NAME VERSION`, and the hash of its go.sum."""

    releases: tuple[str, ...]
    sums: str


def _etcd(version: str, sums: str) -> Derived:
    return Derived((_ETCD.format("etcdutl", version), _ETCD.format("server", version)), sums)


#: By the folder of our own sources in it, if any. To raise one, give it any hash: what is refused
#: then names the right one.
PINNED = {
    "kubeconform": Derived(
        ("github.com/yannh/kubeconform v0.8.0",),
        "0727f146aa89b05e9e40ec5046e7b8c9e6021ca0ec06265e43ca972754989613",
    ),
    "kube-score": Derived(
        ("github.com/zegl/kube-score v1.20.0",),
        "93350cdefb774e9fa8017132f316ca293c61fd9cbd53188f8fb3ec3800c490c8",
    ),
    "signing": Derived(
        (
            "github.com/sigstore/cosign/v3 v3.1.3",
            "github.com/google/go-containerregistry v0.22.1",
        ),
        "478ac0819dd80672fe6049d499043eb8a9b7e32d1a2b3c6b1bd550bfbe026641",
    ),
    "versitygw": Derived(
        ("github.com/versity/versitygw v1.8.0",),
        "c5d1bc7c9926f1db3cd495c364596a8fe3bf6be3078d334aed6bc8a5abce3005",
    ),
    "etcdctl": Derived(
        ("go.etcd.io/etcd/etcdctl/v3 v3.7.3",),
        "c1f86784fadde62f29481737f0608ace2dffb21ac68a68d12facb4deecd35621",
    ),
    "etcd/3.5": _etcd(
        "v3.5.35", "4a3ef0044d98368db876f622d5335a0843f32116fe9436cd54b2144b1231f13b"
    ),
    "etcd/3.6": _etcd(
        "v3.6.16", "843827ba6cf086e4e9095942935fcac5c75e3be087d3191eaa6ac181c20904ce"
    ),
    "etcd/3.7": _etcd("v3.7.3", "6bf131cd77535e2eb1eb804c7d8b0e2b45dfb3577e5d2786d97f9dff4a98d421"),
}
_BLOCK = re.compile(r"^(?:exclude|replace|retract|tool) \(.*?^\)", re.MULTILINE | re.DOTALL)
_REQUIRED = re.compile(r"^(?:\t|require )(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
#: What a release takes from a folder beside its own: it is published in the same version.
_BESIDE = re.compile(r"^\s*(?:replace )?(\S+)(?: v\S+)? => \.\./", re.MULTILINE)


def module(name: str, go: Path) -> Path:
    """Return the folder with a module's go.mod and go.sum, and our own sources.

    Raise KitError if a module is not served, or if the checksums are not those that are pinned.
    """
    pinned, ours = PINNED[name], _RECIPES / name

    def make(part: Path) -> None:
        releases = older.downloaded(go, part, *pinned.releases)
        required, sums = dict[str, str](), set[str]()
        beside = set[str]()
        for release in releases:
            text = Path(release["Dir"], "go.mod").read_text()
            for library, version in _REQUIRED.findall(_BLOCK.sub("", text)):
                required[library] = max(required.get(library, ""), version, key=_order)
            beside.update(_BESIDE.findall(text))
            sums.update(Path(release["Dir"], "go.sum").read_text().splitlines())
        roots = {release["Path"]: release["Version"] for release in releases}
        required |= roots
        staged = [f"{each} {required[each]}" for each in beside & required.keys() - roots.keys()]
        for each in (*releases, *(older.downloaded(go, part, *staged) if staged else ())):
            sums.update(older.checksums(each))
        older.write_sums(part, sums, pinned.sums, f"{name} in {__name__}.PINNED")
        lines = "".join(f"\t{library} {version}\n" for library, version in required.items())
        (part / "go.mod").write_text(f"module derived\n\ngo 1.26.3\n\nrequire (\n{lines})\n")
        if ours.is_dir():
            shutil.copytree(ours, part, dirs_exist_ok=True)

    recipe = tools.digest(*pinned.releases, pinned.sums, ours)
    return tools.part(name.replace("/", "-"), "derived", recipe, make)


def _order(version: str) -> tuple[list[int], str]:
    """Return what orders versions of a library, as Go does where releases disagree."""
    return [int(number) for number in re.findall(r"\d+", version.partition("-")[0])], version
