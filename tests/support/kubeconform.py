"""kubeconform, with the schemas that an operator publishes."""

import subprocess
import tempfile
from pathlib import Path

from kopf_kit.olm import manifests
from kopf_kit.project.definition import PROJECT, Project
from kopf_offline import golang


def findings(project: Project, *files: Path) -> str:
    """Return what kubeconform finds in manifests of a project's kinds; empty if it takes them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _schemas(project).items():
            Path(folder, name).write_text(text)
        form = f"{folder}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
        ended = subprocess.run(
            [golang.program("kubeconform"), "-strict", "-schema-location", form, *files],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
    assert (ended.returncode == 0) == (ended.stdout == ""), ended.stdout
    return ended.stdout


def _schemas(project: Project) -> dict[str, str]:
    if project.root == PROJECT.root:
        texts = manifests.texts()
        return {name: text for name, text in texts.items() if name.endswith(".json")}
    return {file.name: file.read_text() for file in project.deploy.glob("*.json")}
