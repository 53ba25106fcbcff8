"""The example of docs/testing.md that needs a kind cluster, in a process of its own."""

import subprocess
import sys

from kopf_kit.rig import paths
from tests.faults.test_testing import TESTS


def test_the_cluster_of_the_page_about_tests() -> None:
    (listing,) = [test for test in TESTS if "(cluster)" in test]
    file = paths.BUILD / "test_cluster.py"
    file.write_text(listing)
    command = (sys.executable, "-m", "pytest", "-q", "--noconftest", file)

    done = subprocess.run(command, cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=1500)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
