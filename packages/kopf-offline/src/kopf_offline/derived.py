"""Go modules that follow from releases of others; `kopf_offline.golang` builds programs in them.

A release pins its libraries itself, in the go.mod and go.sum of its module. So the module to build
in is derived from it, or from several of them: it has the newest version of each library that they
ask for. The hash of its go.sum, which has the checksums of all sources, and that of its go.mod,
which chooses among them, pin it. What a release takes from a folder of its own repository, such as
Kubernetes' k8s.io/api, is published beside it.
"""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import tools, versions
from kopf_kit.rig.run import KitError, output

_RECIPES = Path(__file__).resolve().parent
_OLM = "github.com/operator-framework"
_KUBERNETES = "k8s.io/kubernetes"
_OF_ETCD = ("etcdutl", "server")


@dataclass(frozen=True)
class Derived:
    """What a module is derived from: releases, as `NAME VERSION`, and the hashes that result.

    They are that of go.sum, and 16 digits of that of go.mod, which the code here chooses, too.
    """

    releases: tuple[str, ...]
    hashes: str

    @property
    def sums(self) -> str:
        """The hash of go.sum: with the releases, it names the folder of the programs built.

        The hash of go.mod is only compared where a module is derived. Who changes how it is
        derived, and so that hash without this one, removes programs built before from the cache.
        """
        return self.hashes.partition(" ")[0]


def _of(hashes: str, *names: str) -> Derived:
    """Return what is derived from these modules in their pinned versions, or in the one given."""
    releases = (name if " " in name else f"{name} {versions.MODULES[name]}" for name in names)
    return Derived(tuple(releases), hashes)


#: By the minor version.
_ETCDS = {
    "3.5": "4a3ef0044d98368db876f622d5335a0843f32116fe9436cd54b2144b1231f13b e4e62508068d21d1",
    "3.6": "843827ba6cf086e4e9095942935fcac5c75e3be087d3191eaa6ac181c20904ce c8c8c844a10e792e",
    "3.7": "6bf131cd77535e2eb1eb804c7d8b0e2b45dfb3577e5d2786d97f9dff4a98d421 a62d1c9b928e1aa9",
}
_OLDER = {
    "1.29": "2dec0967fd9cf84fc914b88b47c486ef7490fb97c7f5c07cd985ce0a219cf670 2e57828e7517c642",
    "1.30": "0c2b93de89d9d59f7106a1770f28927a6b583f8aacede49abfc9d490a8756a77 f76966bd92f57fe0",
    "1.31": "e1388425546b45d61de613802206003d04c80108a294aa9a73a2ae70dcfe4c78 04af8dc5e117ad8a",
    "1.32": "de9bd20b296010e6b532f035ec91c8ce63cbe225fd58ef326740de1230c0ddd3 0c475b4e0184b232",
    "1.33": "f89d697846da3ca3cb67b88e4fb3589f5cbe0165cd38aeb56720a1a0ea522c8b a3de4f0aa317903b",
    "1.34": "9903edea77655fcb9adf360f79149f327d0c86a72abdc94e6c85255fc1edb231 eaf6b1a2becf994e",
    "1.35": "d3d9854dd4b4f9bbf936de2cc8c30fd87053a26d40506e2cc2c5db58d12d35e5 5e85fb0a73b863b5",
    "1.36": "4955836db98f1fc568332a0dd6188e8007d8909521e3d0c708d97770bc300298 824dc8a6160d82b4",
}
#: By the folder of our own sources in it, if any.
PINNED = {
    "go": _of(
        "c5060956a0b586718233cae4c1ae8ca0e19df77d62223d4c32e382ab21ac3619 1523c75bf9454a06",
        "github.com/coredns/coredns",
        "github.com/grpc-ecosystem/grpc-health-probe",
        f"{_OLM}/api",
        f"{_OLM}/operator-controller",
        f"{_OLM}/operator-lifecycle-manager",
        f"{_OLM}/operator-registry",
        f"{_OLM}/operator-sdk",
        "github.com/rhysd/actionlint",
        "go.etcd.io/etcd/server/v3",
        "helm.sh/helm/v3",
        "helm.sh/helm/v4",
        _KUBERNETES,
        "sigs.k8s.io/kind",
        "sigs.k8s.io/kwok",
        # What some of them pin needs these newer than others pin them: Go names them.
        "github.com/containerd/typeurl/v2 v2.3.0",
        "github.com/ianlancetaylor/demangle v0.0.0-20250417193237-f615e6bd150b",
        "google.golang.org/genproto v0.0.0-20260715232425-e75dac1f907d",
    ),
    "kubeconform": _of(
        "0727f146aa89b05e9e40ec5046e7b8c9e6021ca0ec06265e43ca972754989613 6069cffdc2e33ddd",
        "github.com/yannh/kubeconform",
    ),
    "kube-score": _of(
        "93350cdefb774e9fa8017132f316ca293c61fd9cbd53188f8fb3ec3800c490c8 482e47a5f9feee88",
        "github.com/zegl/kube-score",
    ),
    "porcupine": _of(
        "964be2f289a56a21bd621cfcc71a6c6768904449b73d2a2a7df8717ce43d1bdf 8cad6ed8aacb087f",
        "github.com/anishathalye/porcupine",
    ),
    "signing": _of(
        "478ac0819dd80672fe6049d499043eb8a9b7e32d1a2b3c6b1bd550bfbe026641 980f65fa62d97793",
        "github.com/sigstore/cosign/v3",
        "github.com/google/go-containerregistry",
    ),
    "versitygw": _of(
        "c5d1bc7c9926f1db3cd495c364596a8fe3bf6be3078d334aed6bc8a5abce3005 297359b789b9b499",
        "github.com/versity/versitygw",
    ),
    "etcdctl": _of(
        "c1f86784fadde62f29481737f0608ace2dffb21ac68a68d12facb4deecd35621 a14fc52f3128d03d",
        f"go.etcd.io/etcd/etcdctl/v3 {versions.ETCD}",
    ),
    **{
        f"etcd/{minor}": _of(
            hashes, *(f"go.etcd.io/etcd/{part}/v3 {versions.ETCDS[minor]}" for part in _OF_ETCD)
        )
        for minor, hashes in _ETCDS.items()
    },
    **{
        f"older/{minor}": _of(hashes, f"{_KUBERNETES} {versions.OLDER[minor]}")
        for minor, hashes in _OLDER.items()
    },
}
_BLOCK = re.compile(r"^(?:exclude|replace|retract|tool) \(.*?^\)", re.MULTILINE | re.DOTALL)
_REQUIRED = re.compile(r"^(?:\t|require )(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
#: What no program needs, and is not served, or is pinned older than others need it.
_OMITTED = {
    "github.com/containerd/stargz-snapshotter/estargz",
    "github.com/operator-framework/ansible-operator-plugins",
    "gopkg.in/check.v1",
    "pkg.package-operator.run/boxcutter",
}
#: What a release takes from a folder. No program needs Kubernetes' samples, which are not always
#: served.
_BESIDE = re.compile(r"^\s*(?:replace )?(?!k8s\.io/sample-)(\S+)(?: v\S+)? => \.\.?/", re.MULTILINE)
#: The version of what Kubernetes takes from there.
_STAGED = "v0.0.0"


def module(name: str, go: Path) -> Path:
    """Return the folder with a module's go.mod and go.sum, and our own sources.

    Raise KitError if a module is not served, or if what is derived is not what is pinned.
    """
    pinned, ours = PINNED[name], _RECIPES / name

    def make(part: Path) -> None:
        releases = _downloaded(go, part, *pinned.releases)
        required, sums, staged = dict[str, str](), set[str](), dict[str, str]()
        beside = set[str]()
        for release in releases:
            text = Path(release["Dir"], "go.mod").read_text()
            local = {*_BESIDE.findall(text)}
            beside |= local
            for library, version in _REQUIRED.findall(_BLOCK.sub("", text)):
                if version != _STAGED:
                    required[library] = max(required.get(library, ""), version, key=_order)
                elif library in local:  # published as v0.37.2 with v1.37.2
                    staged[library] = release["Version"].replace("v1.", "v0.", 1)
            file = Path(release["Dir"], "go.sum")
            sums.update(file.read_text().splitlines() if file.exists() else ())
        roots = {release["Path"]: release["Version"] for release in releases}
        required = {k: v for k, v in (required | staged | roots).items() if k not in _OMITTED}
        published = [f"{each} {required[each]}" for each in beside & required.keys() - roots.keys()]
        for each in (*releases, *(_downloaded(go, part, *published) if published else ())):
            about = f"{each['Path']} {each['Version']}"
            sums |= {f"{about} {each['Sum']}", f"{about}/go.mod {each['GoModSum']}"}
        requires = "".join(f"\t{library} {version}\n" for library, version in required.items())
        replaces = "".join(f"replace {each} => {each} {staged[each]}\n" for each in staged)
        text = f"module derived\n\ngo 1.26.3\n\nrequire (\n{requires})\n{replaces}"
        files = {"go.sum": "".join(f"{line}\n" for line in sorted(sums)), "go.mod": text}
        _write(part, files, pinned.hashes, name)
        if ours.is_dir():
            shutil.copytree(ours, part, dirs_exist_ok=True)

    recipe = tools.digest(*pinned.releases, pinned.hashes, ours)
    return tools.part(name.replace("/", "-"), "derived", recipe, make)


def _order(version: str) -> tuple[list[int], bool, str]:
    """Return what orders versions of a library, as Go does where releases disagree."""
    number, before, _ = version.partition("-")
    return [int(part) for part in re.findall(r"\d+", number)], not before, version


def _write(folder: Path, files: dict[str, str], pinned: str, name: str) -> None:
    """Write go.sum and go.mod; raise KitError if their hashes are not those that are pinned."""
    sums, mod = (hashlib.sha256(text.encode()).hexdigest() for text in files.values())
    if (hashes := f"{sums} {mod[:16]}") != pinned:
        raise KitError(
            f"go.sum and go.mod of {name} in {__name__}.PINNED have the hashes `{hashes}`, but "
            f"`{pinned}` is pinned; correct it only if you have just changed a version, or how "
            "they are derived"
        )
    for file, text in files.items():
        (folder / file).write_text(text)


def _downloaded(go: Path, folder: Path, *modules: str) -> list[dict[str, str]]:
    """Download modules, each given as a line of go.mod; return what Go says of them."""
    said = output(
        [go, "mod", "download", "-json", *(each.replace(" ", "@") for each in modules)],
        cwd=folder,
        env={"GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        timeout=10 * 60,
    )
    return json.loads("[" + said.strip().replace("}\n{", "},{") + "]")  # type: ignore[no-any-return]
