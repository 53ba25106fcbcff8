"""`make e2e`: the end-to-end tests, on a kind cluster of their own, or on an existing one.

First those by Helm, then those by OLM: each installs the operator and removes it again. OLM's
programs are compiled while the former run, which mostly wait; the compiler gives way to them.
"""

import os
import subprocess
import sys
from pathlib import Path

from hack import cluster, olm, paths
from hack.run import say, together

_TESTS = paths.CHECKOUT / "tests"
_NOTHING_SELECTED = 5  # pytest's exit code


def run(arguments: list[str]) -> int:
    """Run the tests, with these further options of pytest; gives pytest's exit code."""
    made = cluster.up(cluster.TEST_NAME)
    codes: list[int] = []

    def by_helm() -> None:
        codes.append(_pytest(_TESTS / "e2e", made.kubeconfig, arguments))

    together(by_helm, *(() if made.existing else (olm.image,)))
    if not made.existing:
        codes.append(_pytest(_TESTS / "olm", made.kubeconfig, arguments))
    return result(codes)


def run_olm(arguments: list[str]) -> int:
    """Run the tests by OLM alone."""
    made = olm.up(cluster.TEST_NAME)
    return _pytest(_TESTS / "olm", made.kubeconfig, arguments)


def result(codes: list[int]) -> int:
    """Return one exit code for several runs: ARGS may select tests of one of them only."""
    told = [code for code in codes if code != _NOTHING_SELECTED]
    return max(told) if told else _NOTHING_SELECTED


def _pytest(folder: Path, kubeconfig: Path, arguments: list[str]) -> int:
    say(f"==> End-to-end tests in {folder.relative_to(paths.CHECKOUT)}")
    command = [sys.executable, "-m", "pytest", str(folder), *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, cwd=paths.CHECKOUT, env=environment, check=False).returncode
