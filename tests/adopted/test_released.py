"""Public operators on plain kopf, as they were released: adopted, packaged, installed.

Their rights are recorded, and with these alone, Helm and then OLM install each of them for a sample
of ours, which it serves. README.md has what comes out of it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kopf_kit.rig import cluster, engine, versions
from kopf_offline import golang

OURS = Path(__file__).parent
PAGE = Path(__file__).with_name("README.md")


class Released(NamedTuple):
    """An operator in the package index."""

    #: Also the folder with our sample, and with what to do with it.
    name: str
    requirement: str
    #: What `adopt` does not find.
    options: tuple[str, ...]
    #: Its own chart, and of it the CRDs and the template with its own Role.
    chart: str
    crds: str
    role: str
    #: The rights that it needs beyond those that kopf itself does.
    table: tuple[tuple[str, str, str], ...]
    #: What kubectl waits for while our sample is there.
    served: tuple[str, ...]
    #: What is told of its own Role: what it has for nothing, or what it lacks.
    unused: str = ""
    missing: str = ""
    #: In place of releases that it demands, and that are not for Python 3.13.
    instead: tuple[str, ...] = ()
    #: What goes after the sample.
    gone: tuple[str, ...] = ()

    @property
    def project(self) -> str:
        return self.requirement.partition("==")[0]

    def life(self) -> list[str]:
        """Return what kubectl does with our sample, as life.py reads it."""
        served, gone = (
            [f"wait --for={one} --timeout=100s" for one in each]
            for each in (self.served, self.gone)
        )
        sample = "--filename=sample.yaml"
        return [f"apply {sample}", *served, f"delete {sample} --timeout=100s", *gone]


DASK = Released(
    "dask",
    "dask-kubernetes==2026.3.0",
    (
        *("--home=https://github.com/dask/dask-kubernetes", "--name=dask-kubernetes-operator"),
        "--module=dask_kubernetes.operator.controller",
    ),
    "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator",
    "crds",
    "templates/clusterrole.yaml",
    (
        ("", "services", "get, create"),
        ("apps", "deployments", "get, list, create"),
        ("kubernetes.dask.org", "daskworkergroups", "get, create"),
    ),
    (
        "jsonpath={.status.phase}=Running --filename=sample.yaml",
        "create deployment --selector=dask.org/component=worker",
    ),
    # It names a version where a group is meant, so it gives nothing.
    "validatingwebhookconfigurations.admissionregistration.k8s.io/v1: role.yaml",
)
FASTFLOW = Released(
    "fastflow",
    "python-fastflow==0.8.1",
    ("--module=serve",),
    "chart",
    "crds/generated",
    "templates/rbac/role.yaml",
    (("fastflow.dev", "fastflow.dev", "patch"), ("fastflow.dev", "tasks", "create")),
    (
        "jsonpath={.status.workflow_status}=complete --filename=sample.yaml",
        "create tasks --selector=task_local_name=second",
    ),
    "unused: the right to list, watch, patch, get kopfpeerings.kopf.dev: role.yaml",
    # It names the group where the plural is meant, and waits for the answer that there is no such
    # kind: without the right to ask, no Task goes.
    "missing: the right to patch fastflow.dev.fastflow.dev: role.yaml does not give it",
    ("kopf==1.37.5", "pyyaml==6.0.2"),
    ("delete tasks --all",),
)
BALER = Released(
    "baler",
    "baler-operator==0.0.1.dev0",
    (
        *("--home=https://github.com/gatecastle/baler-operator", "--name=baler"),
        "--module=baler_operator",
    ),
    "charts/baler-operator",
    "crds",
    "",
    (
        ("", "configmaps", "create, delete"),
        ("", "services", "create, delete"),
        ("apps", "deployments", "create, delete"),
    ),
    ("jsonpath={.status.phase}=Pending --filename=sample.yaml", "create deployment/query"),
    missing="missing: the right to create configmaps",
    instead=("kopf==1.37.5",),
)
every_operator = pytest.mark.parametrize(
    "released", [DASK, FASTFLOW, BALER], ids=lambda released: released.name
)


def run(at: Path, *command: str | Path) -> str:
    ended = subprocess.run(
        command,
        cwd=at,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=2400,
        env={**os.environ, "KIND_CLUSTER_NAME": cluster.NAME},  # not one of each operator's own
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def kit(at: Path, *words: str) -> str:
    return run(at, sys.executable, "-m", "kopf_kit", *words)


def repository(released: Released, folder: Path) -> Path:
    """Return a folder with the released sources, a sample of ours, and the operator's Python."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:")
    run(folder, *pip, released.requirement)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    (root,) = (each for each in folder.iterdir() if each.is_dir())
    wanted, instead = folder / "wanted.txt", folder / "instead.txt"
    wanted.write_text(f"{released.requirement}\n")
    instead.write_text("\n".join(released.instead))
    uv = (Path(sys.executable).with_name("uv"), "--quiet")
    run(root, *uv, "venv", f"--python={sys.executable}", ".venv")
    install = (*uv, "pip", "install", "--python=.venv", f"--overrides={instead}")
    run(root, *install, released.requirement)
    image = (f"--python-version={versions.PYTHON}", "--python-platform=linux")
    lock = (*uv, "pip", "compile", "--generate-hashes", *image, f"--overrides={instead}")
    run(root, *lock, "--output-file=requirements.txt", wanted)
    for file in (OURS / "life.py", *(OURS / released.name).iterdir()):
        shutil.copy(file, root)
    (root / "life.txt").write_text("\n".join(released.life()))
    if released.role:
        show = (released.chart, f"--show-only={released.role}")
        (root / "role.yaml").write_text(run(root, golang.program("helm"), "template", *show))
    return root


def files(root: Path) -> set[Path]:
    return {file for file in root.rglob("*") if file.is_file() and ".venv" not in file.parts}


@pytest.fixture
def root(released: Released, tmp_path: Path) -> Path:
    """Return the repository of a released operator, after `kopf-kit adopt`."""
    root = repository(released, tmp_path)
    before = files(root)
    crds = sorted((root / released.chart / released.crds).iterdir())
    options = [*released.options, *(f"--crd={file.relative_to(root)}" for file in crds)]
    options += ["--rights=role.yaml"] if released.role else []

    kit(root, "adopt", *options, "--sample=sample.yaml", "--requirements=requirements.txt")
    assert files(root) - before == {root / "PROJECT"}
    return root


@pytest.fixture
def registry(released: Released) -> Iterator[None]:
    """Remove the registry's container that the operator's tests start."""
    yield
    name = dict(word.split("=", 1) for word in released.options).get("--name", released.project)
    engine.remove_container(f"{name}-registry")


_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@every_operator
@pytest.mark.usefixtures("registry")
def test_a_released_operator_is_packaged_and_serves_with_fewer_rights_than_its_role_s(
    released: Released, root: Path
) -> None:
    test = (*_PYTEST, "--timeout=300", "life.py")
    said = kit(root, "rights", "record", "--", *test)
    recorded = yaml.safe_load((root / "rights.yaml").read_text())["rules"]
    assert recorded == [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs.split(", ")}
        for group, resource, verbs in released.table
    ]
    assert released.unused in said
    assert released.missing in said
    assert bool(released.missing) == ("missing: " in said)

    project = (root / "PROJECT").read_text().replace("    rights: role.yaml\n", "")
    (root / "PROJECT").write_text(
        project.replace("    samples:\n", "    rights: rights.yaml\n    samples:\n")
    )
    kit(root, "generate")
    kit(root, "verify")
    built = root / "build" / "generated"
    charts = [*(built / "charts").iterdir()]
    assert "2 chart(s) linted, 0 chart(s) failed" in run(
        root, golang.program("helm"), "lint", "--strict", *charts
    )
    # What the page says of it.
    written = len(files(built))
    text = PAGE.read_text()
    assert re.search(rf"^\| {released.project} .* \| {written} \|$", text, re.MULTILINE), written
    rows = re.findall(
        rf"^\| {released.project} \| `(\S*)` `(\S+)` \| `([^`]+)` \|", text, re.MULTILINE
    )
    assert tuple((group.replace("core", ""), *row) for group, *row in rows) == released.table

    for command in ("e2e", "e2e-olm"):
        assert "1 passed" in kit(root, command)
