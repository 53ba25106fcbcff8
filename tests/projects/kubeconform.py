"""kubeconform, with the schemas that an operator publishes in deploy/schemas."""

import subprocess
from pathlib import Path

from kopf_kit.pack.project import Project
from kopf_offline import golang


def findings(project: Project, *manifests: Path) -> str:
    """Return what kubeconform finds in manifests of a project's kinds; empty if it takes them."""
    schemas = project.built / "deploy" / "schemas"
    form = f"{schemas}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
    ended = subprocess.run(
        [golang.program("kubeconform"), "-strict", "-schema-location", form, *manifests],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode == 0) == (ended.stdout == ""), ended.stdout
    return ended.stdout
