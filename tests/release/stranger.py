"""Somebody who has a registry and the public key, and does what the page of a release says."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

from kopf_kit.release.signatures import Keys
from kopf_kit.rig import tools
from kopf_offline import golang
from message_operator import __version__
from tests.support.console import commands


class Stranger:
    """Somebody with the public key of `keys`, who types what the page says."""

    def __init__(
        self, folder: Path, keys: Keys, prefix: str, version: str = __version__, index: str = ""
    ) -> None:
        self.folder = folder
        shutil.copy(keys.cosign_public, folder)
        programs = folder / "bin"
        programs.mkdir()
        for name in ("cosign", "crane"):
            (programs / name).symlink_to(golang.program(name))
        # A public registry has a certificate; that of the tests has none.
        helm = programs / "helm"
        helm.write_text(f'#!/bin/sh\nexec {tools.path("helm4")} "$@" --plain-http\n')
        helm.chmod(helm.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "REGISTRY": prefix,
            "VERSION": version,
            # What a user's pip is set up for.
            "PIP_INDEX_URL": index,
        }

    def types(self, *lines: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def verifies(self, name: str, what: str = "verify") -> bool:
        """Tell whether cosign verifies something in the registry, by the page's flags."""
        done = self.types(
            f"cosign {what} --key cosign.pub --insecure-ignore-tlog=true $REGISTRY/{name}"
        )
        assert done.returncode in (0, 1, 10, 12), done.stderr
        return done.returncode == 0


def of_page(page: Path) -> list[str]:
    """Return the commands of a page, but for the one that says which release it is about."""
    return [line for line in commands(page.read_text()) if not line.startswith("export REGISTRY=")]
