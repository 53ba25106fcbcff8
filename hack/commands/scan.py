"""`make scan`: tell which of the packages that the locks pin are known to be vulnerable.

pip-audit asks the database of OSV (https://osv.dev). It takes a database that knows nothing for
good news. So it is also asked about a release that is known to be vulnerable: where nothing is said
of that one, nothing was looked up, and the scan fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hack.commands import Subparsers
from hack.rig import paths
from hack.rig.run import HackError, tail

#: A release with many advisories, of a package that no lock has.
KNOWN = ("django", "1.11")

#: Seconds: a hundred packages are asked about one after the other.
_TIMEOUT = 900


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("scan", help="tell which locked packages are known as vulnerable")
    parser.add_argument("arguments", nargs="*", help="further arguments of pip-audit")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    locks = sorted((paths.CHECKOUT / "requirements").glob("*.txt"))
    return scan(locks, arguments.arguments)


def scan(locks: Sequence[Path], arguments: Sequence[str] = ()) -> int:
    """Print the vulnerabilities of what the locks pin; return 1 where there is one, else 0.

    Raises HackError where they could not be looked up.
    """
    found = 0
    for lock in locks:
        packages = _looked_up(lock, arguments)
        print(f"{lock.name}: {len(packages)} packages looked up")
        for package in packages:
            for vulnerability in package["vulns"]:
                found += 1
                fixes = ", ".join(vulnerability["fix_versions"]) or "no version yet"
                named = f"{package['name']} {package['version']}"
                print(f"{lock.name}: {named}: {vulnerability['id']}, fixed in {fixes}")
    print(f"vulnerabilities: {found}")
    return 1 if found else 0


def _looked_up(lock: Path, arguments: Sequence[str]) -> list[Any]:
    """Return what pip-audit tells of each package of a lock."""
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "known.txt")
        known.write_text(f"{KNOWN[0]}=={KNOWN[1]} --hash=sha256:{'0' * 64}\n")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--strict", "--disable-pip"),
                *("--require-hashes", "--vulnerability-service", "osv", "--format", "json"),
                *("--timeout", "60", "--progress-spinner", "off", *arguments),
                *("--requirement", str(lock), "--requirement", str(known)),
            ],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    try:
        told = json.loads(done.stdout)["dependencies"]
    except ValueError as error:
        raise HackError(
            "vulnerabilities could not be looked up; where the network refuses api.osv.dev, let "
            f"another machine scan. pip-audit said:\n{tail(done.stderr, 3)}"
        ) from error
    asked = [package for package in told if (package["name"], package["version"]) == KNOWN]
    if not any(package["vulns"] for package in asked):
        raise HackError(
            f"the database knows of no vulnerability in {' '.join(KNOWN)}, which has several: it "
            "looked nothing up. See whether a proxy answers in the place of api.osv.dev"
        )
    return [package for package in told if package not in asked]
