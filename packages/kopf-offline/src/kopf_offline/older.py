"""Older versions of Kubernetes as Go modules; `kopf_offline.golang` builds servers for tests.

A release of Kubernetes pins its libraries itself, in the go.mod and go.sum of its module. Only what
it takes from its own folder `staging`, such as k8s.io/api, is published as further modules of the
same release. So the module to build it in is derived from the release; the hash of its go.sum,
which has the checksums of all sources, pins it.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from kopf_kit.rig import tools
from kopf_kit.rig.run import KitError, output

#: The version and the hash of each, by its minor version. To add one, give it any hash: what is
#: refused then names the right one. Not every patch is served; take another one if it is not.
PINNED = {
    "1.29": ("v1.29.15", "2dec0967fd9cf84fc914b88b47c486ef7490fb97c7f5c07cd985ce0a219cf670"),
    "1.30": ("v1.30.14", "0c2b93de89d9d59f7106a1770f28927a6b583f8aacede49abfc9d490a8756a77"),
    "1.31": ("v1.31.4", "e1388425546b45d61de613802206003d04c80108a294aa9a73a2ae70dcfe4c78"),
    "1.32": ("v1.32.9", "de9bd20b296010e6b532f035ec91c8ce63cbe225fd58ef326740de1230c0ddd3"),
    "1.33": ("v1.33.5", "f89d697846da3ca3cb67b88e4fb3589f5cbe0165cd38aeb56720a1a0ea522c8b"),
    "1.34": ("v1.34.4", "9903edea77655fcb9adf360f79149f327d0c86a72abdc94e6c85255fc1edb231"),
    "1.35": ("v1.35.8", "d3d9854dd4b4f9bbf936de2cc8c30fd87053a26d40506e2cc2c5db58d12d35e5"),
    "1.36": ("v1.36.4", "4955836db98f1fc568332a0dd6188e8007d8909521e3d0c708d97770bc300298"),
}
_KUBERNETES = "k8s.io/kubernetes"
#: The version of what Kubernetes takes from its folder `staging`.
_STAGED = "v0.0.0"
_REQUIRED = re.compile(r"^\t(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)


def module(minor: str, go: Path) -> Path:
    """Return the folder with the go.mod and go.sum of an older Kubernetes.

    Raise KitError if a module is not served, or if the checksums are not those that are pinned.
    """
    version, pinned = PINNED[minor]
    library = version.replace("v1.", "v0.", 1)

    def make(part: Path) -> None:
        [release] = downloaded(go, part, f"{_KUBERNETES} {version}")
        required = _REQUIRED.findall(Path(release["Dir"], "go.mod").read_text())
        others = [f"{name} {number}" for name, number in required if number != _STAGED]
        # No server needs the samples, which are not always served.
        staged = [
            f"{name} {library}"
            for name, number in required
            if number == _STAGED and not name.startswith("k8s.io/sample-")
        ]
        sums = Path(release["Dir"], "go.sum").read_text().splitlines()
        for each in (release, *downloaded(go, part, *staged)):
            sums += checksums(each)
        write_sums(part, sums, pinned, f"Kubernetes {version} in {__name__}.PINNED")
        everything = [f"{_KUBERNETES} {version}", *others, *staged]
        requires = _lines([f"require {each}" for each in everything])
        replaces = _lines([f"replace {each.split()[0]} => {each}" for each in staged])
        (part / "go.mod").write_text(f"module older\n\ngo 1.26.0\n\n{requires}\n{replaces}")

    return tools.part("kubernetes", version, pinned[:10], make)


def checksums(module: dict[str, str]) -> list[str]:
    """Return the lines of go.sum about a module that was downloaded."""
    name = f"{module['Path']} {module['Version']}"
    return [f"{name} {module['Sum']}", f"{name}/go.mod {module['GoModSum']}"]


def write_sums(folder: Path, sums: Iterable[str], pinned: str, where: str) -> None:
    """Write go.sum; raise KitError if its hash is not the one that is pinned there."""
    written = _lines(sorted(sums))
    found = hashlib.sha256(written.encode()).hexdigest()
    if found != pinned:
        raise KitError(
            f"the checksums of {where} have the hash {found}, but {pinned} is pinned; correct it "
            "only if you have just changed the version"
        )
    (folder / "go.sum").write_text(written)


def downloaded(go: Path, folder: Path, *modules: str) -> list[dict[str, str]]:
    """Download modules, each given as a line of go.mod; return what Go says of them."""
    said = output(
        [go, "mod", "download", "-json", *(each.replace(" ", "@") for each in modules)],
        cwd=folder,
        env={"GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        timeout=10 * 60,
    )
    return json.loads("[" + said.strip().replace("}\n{", "},{") + "]")  # type: ignore[no-any-return]


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
