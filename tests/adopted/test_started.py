"""Images of adopted operators, built for real: each is started once, and says what it lacks.

The first operator is what kopf's tutorial leads to, in our words. It gets as far as a Pod.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kopf_kit.rig import cluster, engine

HOME = "--home=https://github.com/example/claims-operator"
KOPF = ["kopf==1.45.2", "kubernetes==37.0.2"]
NO_WHEEL = "StringGenerator==0.4.4"
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ephemeralvolumeclaims.kopf.dev}
spec:
  group: kopf.dev
  scope: Namespaced
  names: {kind: EphemeralVolumeClaim, plural: ephemeralvolumeclaims, singular: ephemeralvolumeclaim}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
SAMPLE = """\
apiVersion: kopf.dev/v1
kind: EphemeralVolumeClaim
metadata: {name: my-claim}
spec: {size: 1Gi}
"""
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: claims}
rules: [{apiGroups: [""], resources: [persistentvolumeclaims], verbs: [create, patch]}]
"""
#: A claim of another kind, as a file beside the handlers.
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "@NAME@"}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "@SIZE@"}}}
"""
HANDLERS = """\
import pathlib

import kopf
import kubernetes
import yaml


@kopf.on.create("ephemeralvolumeclaims")
def create(spec, name, namespace, **_):
    text = pathlib.Path(__file__).with_name("pvc.yaml").read_text()
    claim = yaml.safe_load(text.replace("@NAME@", name).replace("@SIZE@", spec["size"]))
    kopf.adopt(claim)
    kubernetes.client.CoreV1Api().create_namespaced_persistent_volume_claim(namespace, claim)
    return {"pvc-name": name}


@kopf.on.field("ephemeralvolumeclaims", field="metadata.labels")
def relabel(diff, status, namespace, **_):
    labels = {field[0]: new for _, field, _, new in diff if field}
    name = status["create"]["pvc-name"]
    kubernetes.client.CoreV1Api().patch_namespaced_persistent_volume_claim(
        name, namespace, {"metadata": {"labels": labels}}
    )
"""
#: Code that knows its version by its metadata, and needs a package that is released without wheels.
VERSIONED = f"""\
import importlib.metadata, strgen

assert importlib.metadata.version("claims-op") == "1.2.0"
{HANDLERS}"""
ABOUT = f'[project]\nname = "claims-op"\nversion = "1.2.0"\ndependencies = {[*KOPF, NO_WHEEL]}\n'
POETRY = """
[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"
[tool.poetry]
packages = [{include = "claims_op", from = "src"}]
"""
SETUPTOOLS = """
[build-system]
requires = ["setuptools"]
[tool.setuptools.package-data]
claims_op = ["*.yaml"]
"""
#: The code of each layout, where it is, and its other files.
LAYOUTS: dict[str, tuple[str, str, Mapping[str, str]]] = {
    "tutorial": (HANDLERS, "ephemeral.py", {}),
    "poetry": (VERSIONED, "src/claims_op/handlers.py", {"pyproject.toml": ABOUT + POETRY}),
    "setuptools": (VERSIONED, "claims_op/handlers.py", {"pyproject.toml": ABOUT + SETUPTOOLS}),
}


def said(root: Path, *words: str, fails: bool = False) -> str:
    """Return what a command of the kit says, in one line."""
    done = subprocess.run(
        (sys.executable, "-m", "kopf_kit", *words),
        cwd=root,
        env={**os.environ, "KIND_CLUSTER_NAME": cluster.NAME},  # not one of each operator's own
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1500,
    )
    assert bool(done.returncode) == fails, done.stdout
    return " ".join(done.stdout.split())


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def repository(layout: str, folder: Path) -> Path:
    """Return a repository of a layout, with its author's Python, after `kopf-kit adopt`."""
    code, place, others = LAYOUTS[layout]
    root = folder / f"claims-{layout}"
    others = others or {"requirements.txt": "\n".join(KOPF)}
    files = {"crd.yaml": CRD, "obj.yaml": SAMPLE, "rbac.yaml": ROLE, place: code, **others}
    write(root, {**files, str(Path(place).with_name("pvc.yaml")): CLAIM})
    needed = ["-r", "requirements.txt"] if layout == "tutorial" else ["--editable", "."]
    for words in (["venv", f"--python={sys.executable}"], ["pip", "install", *needed]):
        uv = [str(Path(sys.executable).with_name("uv")), *words, "--quiet"]
        subprocess.run(uv, cwd=root, check=True)
    said(root, "adopt", HOME, f"--name={root.name}", "--rights=rbac.yaml")
    return root


@pytest.mark.parametrize("layout", ["poetry", "setuptools"])
def test_o4_a_package_is_in_its_image_with_its_metadata_and_its_files(
    layout: str, tmp_path: Path
) -> None:
    root = repository(layout, tmp_path)

    assert "once, without a cluster" in said(root, "image", "build")


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield repository("tutorial", tmp_path_factory.mktemp("operator"))
    engine.remove_container("claims-tutorial-registry")


def test_what_kopfs_tutorial_leads_to_is_adopted_and_runs(tutorial: Path) -> None:
    said(tutorial, "generate")
    said(tutorial, "verify")

    assert "1 passed" in said(tutorial, "e2e")


#: What handlers need, what starts them, and what is said of an image without it.
LACKING = {
    "a module": ("import helpers", "", "No module named 'helpers'"),
    "a file": ("open('settings.yaml')", "", "No such file or directory: 'settings.yaml'"),
    # The author's Python tells this one before there is an image.
    "a variable": ("import os; os.environ['BUCKET']", "", "reads the variables BUCKET"),
    "a folder": ("open('cache', 'w')", "", "Read-only file system: 'cache'"),
    "a command": ("", 'CMD ["python3", "-m", "server"]', "No module named server"),
    "a program": ("", 'CMD ["server", "--port=1"]', '"server": executable file not found'),
}


def own_image(tutorial: Path, root: Path, command: str, files: Mapping[str, str]) -> None:
    """Adopt a copy of the tutorial's repository with a Dockerfile that copies its handlers."""
    base = said(tutorial, "image", "build").split()[-1]
    shutil.copytree(tutorial, root, dirs_exist_ok=True, symlinks=True)
    for name in ("PROJECT", "requirements.txt", "ephemeral.py"):
        (root / name).unlink()
    write(root, {"Dockerfile": f"FROM {base}\nCOPY handlers.py ./\n{command}\n", **files})
    said(root, "adopt", HOME, "--name=lacking", "--rights=rbac.yaml", "--no-run")


@pytest.mark.parametrize("lacking", LACKING)
def test_what_an_image_lacks_is_told_when_it_is_built(
    lacking: str, tutorial: Path, tmp_path: Path
) -> None:
    code, command, expected = LACKING[lacking]
    # Both are in the repository, so that only the image lacks them.
    files = {"helpers.py": "", "settings.yaml": "", "handlers.py": f"{code}\n{HANDLERS}"}
    own_image(tutorial, tmp_path, command, files)

    told = said(tmp_path, "image", "build", fails=True)

    assert re.search(f"error: .*{re.escape(expected)}", told), told
    assert "Traceback" not in told


def test_an_image_lacks_nothing_whose_program_reads_its_kubeconfig_at_once(
    tutorial: Path, tmp_path: Path
) -> None:
    command = 'CMD ["python3", "-c", "import os; open(os.environ[\'KUBECONFIG\'])"]'
    own_image(tutorial, tmp_path, command, {"handlers.py": HANDLERS})

    assert "once, without a cluster" in said(tmp_path, "image", "build")
