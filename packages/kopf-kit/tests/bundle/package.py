"""Bundles and catalogs to be broken, and OLM's own programs that look at them."""

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kopf_kit.chart import templates
from kopf_kit.olm import bundle, catalog, manifests
from kopf_kit.olm.catalog import CATALOG
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME, Release
from kopf_kit.rig import tools
from kopf_kit.rig.run import output
from kopf_offline import golang

Manifest = dict[str, Any]

DIGEST = "sha256:" + "0123456789abcdef" * 4
SCORECARD = (
    *("basic-check-spec", "olm-bundle-validation", "olm-crds-have-validation"),
    *("olm-crds-have-resources", "olm-spec-descriptors", "olm-status-descriptors"),
)


def release(version: str) -> Release:
    """Return a release with its images named by digest."""
    return Release(
        version=version,
        image=f"registry.example.com/{PROJECT.name}@{DIGEST}",
        pod_images={pods.name: f"registry.example.com/busybox@{DIGEST}" for pods in PROJECT.images},
        bundle_image=f"registry.example.com/{PROJECT.name}-bundle@{DIGEST}",
    )


def write(files: Mapping[str, str], folder: Path) -> Path:
    """Write files into a folder; return it."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@functools.cache
def _texts(*versions: str) -> tuple[dict[str, str], dict[str, str]]:
    releases = [release(version) for version in versions]
    return bundle.bundle(releases[-1]), catalog.catalog(releases)


def write_both(folder: Path, *versions: str) -> tuple[Path, Path]:
    """Write the bundle of the last of these versions, and a catalog of them all."""
    ours, all_of_them = _texts(*versions)
    return write(ours, folder / "bundle"), write(all_of_them, folder / "catalog")


def copy_both(folder: Path) -> tuple[Path, Path]:
    """Copy what is in git."""
    return (
        Path(shutil.copytree(bundle.BUNDLE, folder / "bundle")),
        Path(shutil.copytree(CATALOG, folder / "catalog")),
    )


def edit(file: Path, change: Callable[[Any], object]) -> None:
    """Change the documents of a file; `change` gets the only one, else the list of them."""
    contents = documents.load_all(file.read_text())
    change(contents[0] if len(contents) == 1 else contents)
    file.write_text(yaml.dump_all(contents, Dumper=yaml.CSafeDumper))


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def opm(*arguments: str | Path) -> str:
    """Run opm and return all that it says; an empty text where it is content."""
    done = run(golang.program("opm"), *arguments)
    return done.stdout + done.stderr


def opm_render(folder: Path, *options: str) -> list[Manifest]:
    """Return the blobs that opm makes of a bundle or a catalog."""
    done = run(golang.program("opm"), "render", folder, "--output", "yaml", *options)
    assert done.returncode == 0, done.stderr
    return documents.load_all(done.stdout)


#: How a program is given a root folder of its own: root may, others in a user namespace.
CHROOT = ("chroot",) if os.geteuid() == 0 else ("unshare", "--map-root-user", "chroot")


def scorecard_root(folder: Path, root: Path) -> Path:
    """Fill a root folder for the scorecard's tests of a bundle: their program reads /bundle."""
    shutil.copytree(folder, root / "bundle")
    shutil.copy2(golang.program("scorecard-test"), root)
    return root


def scorecard(root: Path, test: str) -> Manifest:
    """Return the result of one of the scorecard's tests."""
    done = run(*CHROOT, root, "/scorecard-test", test)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    found: Manifest = result
    return found


def render_with(monkeypatch: pytest.MonkeyPatch, folder: Path, file: str, text: str) -> None:
    """Have all rendered from a copy of the chart in a folder that has this template."""
    chart = shutil.copytree(PROJECT.chart, folder / "chart", dirs_exist_ok=True)
    (chart / "templates" / file).write_text(text)

    def template(*options: str | Path) -> tuple[Manifest, ...]:
        command = [tools.path("helm"), "template", NAME, chart, f"--namespace={NAME}", *options]
        return tuple(documents.load_all(output(command, timeout=60)))

    monkeypatch.setattr(templates, "template", template)
    monkeypatch.setattr(manifests, "template", template)
    monkeypatch.setattr(manifests, "rendered_again", template)


_BUNDLE, _OTHER = "argocd-operator.v0.6.0", "webhook-operator.v0.0.5"
_NAMESPACE, _WATCHED = "argocd-system", "argocd-watch"


def rendered(files: Mapping[str, str], namespace: str, watched: str = "") -> list[Manifest]:
    """Return the objects that OLM v1 creates from a bundle's files in a namespace.

    Its own renderer is a part of operator-controller. Its program is one of their tests, which
    renders two bundles whose names and folder are fixed.
    `watched` is the `watchNamespace` of the ClusterExtension, by default all namespaces.
    """
    case = "all-namespaces"
    if watched:
        case = "own-namespace" if watched == namespace else "single-namespace"
    with tempfile.TemporaryDirectory() as folder:
        for name in (_BUNDLE, _OTHER):
            for path, text in files.items():
                file = Path(folder, "testdata", "bundles", name, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        out = Path(folder, "out")
        command = [str(golang.program("olmv1-render")), f"-output-dir={out}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        made = sorted(Path(out, _BUNDLE, case).glob("*.yaml"))
        texts = [
            file.read_text().replace(_NAMESPACE, namespace).replace(_WATCHED, watched)
            for file in made
        ]
    return [documents.load(text) for text in texts]
