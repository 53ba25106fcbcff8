"""Renders a bundle as OLM v1 does, with its own renderer.

The renderer is a part of operator-controller that can be built here. Its program is one of their
tests, which renders two bundles whose names and folder are fixed.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kopf_kit.project import documents
from kopf_offline import golang

Manifest = dict[str, Any]

_BUNDLE, _OTHER = "argocd-operator.v0.6.0", "webhook-operator.v0.0.5"
_NAMESPACE, _WATCHED = "argocd-system", "argocd-watch"


def rendered(files: Mapping[str, str], namespace: str, watched: str = "") -> list[Manifest]:
    """Return the objects that OLM v1 creates from a bundle's files in a namespace.

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
