"""`make e2e`: the end-to-end tests, on a cluster with all that they install in its registry."""

import os
import subprocess
import sys

from hack import cluster, paths
from hack.run import say

FOLDER = paths.CHECKOUT / "tests" / "e2e"


def run(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; gives pytest's exit code."""
    made = cluster.up()
    say("==> End-to-end tests")
    command = [sys.executable, "-m", "pytest", str(FOLDER), *arguments]
    environment = {**os.environ, "KUBECONFIG": str(made.kubeconfig)}
    return subprocess.run(command, cwd=paths.CHECKOUT, env=environment, check=False).returncode
