"""Prometheus and promtool, for the tests of the dashboard and the alerts.

They come from the PATH, or else from the package of Debian or Ubuntu, which is only unpacked: no
service is started, and root is not needed.
"""

import functools
import shutil
from pathlib import Path

from kopf_kit.rig import preflight, tools
from kopf_kit.rig.run import KitError, output
from kopf_kit.rig.steps import step


@functools.cache
def path(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`; raise KitError if it is not available."""
    if found := shutil.which(name):
        return Path(found)
    if not preflight.can_unpack():
        raise KitError(f"{name} is missing; put Prometheus and its promtool on the PATH")
    version = _candidate()

    def make(part: Path) -> None:
        with step(f"Prometheus {version}: unpack its package") as work:
            work.run(["apt-get", "download", "prometheus"], timeout=5 * 60, cwd=part)
            (package,) = part.glob("*.deb")
            work.run(["dpkg-deb", "--extract", package, part], timeout=60)
            package.unlink()

    return tools.part("prometheus", version, tools.digest("extract"), make) / "usr" / "bin" / name


def _candidate() -> str:
    """Return the version that apt would install, in a form that fits a file name."""
    version = _known()
    if version is None:  # a machine without package lists
        preflight.update()
        version = _known()
    if version is None:
        raise KitError(
            "apt has no package named prometheus; run `sudo apt-get update`, or check apt's sources"
        )
    return version.partition("+")[0].partition("-")[0]


def _known() -> str | None:
    policy = output(["apt-cache", "policy", "prometheus"])
    versions = [line.split()[1] for line in policy.splitlines() if "Candidate:" in line]
    return versions[0] if versions and versions != ["(none)"] else None
