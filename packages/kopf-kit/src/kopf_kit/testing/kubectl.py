"""kubectl, with all rights on a control plane."""

import json
import os
import subprocess

from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_kit.testing.cluster import Raw


def kubectl(plane: ControlPlane, *arguments: str, stdin: list[Raw] | None = None) -> str:
    """Run kubectl with all rights, with these objects as its input; return its output."""
    done = subprocess.run(
        [
            *(tools.path("kubectl"), f"--server={plane.server}", f"--token={ADMIN}"),
            *("--insecure-skip-tls-verify", *arguments),
        ],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": stdin or []}),
        env={**os.environ, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=330,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout
