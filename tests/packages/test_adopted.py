"""A public operator on plain kopf, as it was released: adopted, packaged, and its rights recorded.

docs/package-your-operator.md has what comes out of it.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kopf_kit.rig import paths
from kopf_offline import golang

DASK = "dask-kubernetes==2026.3.0"
HOME = "https://github.com/dask/dask-kubernetes"
MODULE = "dask_kubernetes.operator.controller"
OURS = Path(__file__).parent / "dask"
PAGES = ("package-your-operator.md", "package-your-operator.ko.md")


def run(at: Path, *command: str | Path) -> str:
    ended = subprocess.run(
        command, cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def kit(at: Path, *words: str) -> str:
    return run(at, sys.executable, "-m", "kopf_kit", *words)


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the released code, the CRDs and the Role of its own chart."""
    root = tmp_path_factory.mktemp("dask")
    uv = Path(sys.executable).with_name("uv")
    install = (uv, "pip", "install", "--quiet", "--python=.venv")
    run(root, uv, "venv", "--quiet", f"--python={sys.executable}", ".venv")
    run(root, *install, DASK)
    run(root, *install, "--target=.", "--no-deps", DASK)
    (chart,) = root.glob("dask_kubernetes/operator/deployment/helm/*/")
    shutil.copytree(chart / "crds", root / "crds")
    role = run(
        root, golang.program("helm"), "template", chart, "--show-only=templates/clusterrole.yaml"
    )
    (root / "role.yaml").write_text(role)
    (root / "requirements.txt").write_text(f"{DASK}\n")
    for file in OURS.iterdir():
        if file.is_file():
            shutil.copy(file, root)
    return root


def files(root: Path) -> set[Path]:
    return {file for file in root.rglob("*") if file.is_file() and ".venv" not in file.parts}


def test_a_released_operator_is_adopted_and_its_rights_are_fewer_than_its_role_s(
    dask: Path,
) -> None:
    before = files(dask)
    crds = [f"--crd=crds/{file.name}" for file in sorted((dask / "crds").iterdir())]
    named = (f"--home={HOME}", f"--module={MODULE}", "--name=dask-kubernetes-operator")
    kit(dask, "adopt", *named, *crds, "--sample=sample.yaml", "--rights=role.yaml")
    assert files(dask) - before == {dask / "PROJECT"}

    kit(dask, "generate")
    built = dask / "build" / "generated"
    chart = built / "charts" / "dask-kubernetes-operator"
    assert "0 chart(s) failed" in run(dask, golang.program("helm"), "lint", "--strict", chart)

    test = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "life.py")
    said = kit(dask, "rights", "record", "--", *test)
    recorded = yaml.safe_load((dask / "rights.yaml").read_text())["rules"]
    (dask / "PROJECT").write_text(
        (dask / "PROJECT").read_text().replace("rights: role.yaml", "rights: rights.yaml")
    )
    kit(dask, "generate")

    assert "missing: " not in said
    # Its own Role names a version where a group is meant, so it gives nothing.
    assert "validatingwebhookconfigurations.admissionregistration.k8s.io/v1: role.yaml" in said
    assert recorded == [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        for group, resource, verbs in TABLE
    ]
    # What the page says of it.
    written = sum(1 for file in built.rglob("*") if file.is_file())
    for page in PAGES:
        text = (paths.CHECKOUT / "docs" / page).read_text()
        rows = re.findall(r"^\| `(\S*)` `(\S+)` \| `([^`]+)` \|", text, re.MULTILINE)
        assert [(g.replace("core", ""), r, v.split(", ")) for g, r, v in rows] == TABLE
        assert re.search(rf"(?<!\d){written}(?!\d)", text), written


#: The rights that it needs beyond those that kopf itself does.
TABLE = [
    ("", "services", ["get", "create"]),
    ("apps", "deployments", ["get", "list", "create"]),
    ("kubernetes.dask.org", "daskworkergroups", ["get", "create"]),
]
