"""A kubectl plugin as a user runs it: the packed program, and the kubectl of the tests."""

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.release import packed


@dataclass(frozen=True)
class Said:
    """The plugin's output and exit code."""

    code: int
    out: str
    err: str

    @property
    def first(self) -> str:
        """The first line."""
        return self.out.partition("\n")[0]

    def part(self, label: str) -> str:
        """Return the text after a label below the first line, or an empty one."""
        found = re.search(rf"^ +{label} +(.*)$", self.out, re.MULTILINE)
        return found[1] if found else ""


class Plugin:
    """The packed plugin, `kubectl message` unless it is given, in a folder with kubectl."""

    def __init__(
        self, folder: Path, kubectl: Path, kubeconfig: Path, given: bytes | None = None
    ) -> None:
        self._program = folder / packed.PROGRAM
        self._program.write_bytes(given or packed.program())
        self._program.chmod(0o755)
        (folder / "kubectl").symlink_to(kubectl)
        self._environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "LANG": "C.UTF-8",
        }

    def __call__(self, *arguments: str, **environment: str) -> Said:
        """Run the plugin as kubectl does."""
        done = subprocess.run(
            [sys.executable, str(self._program), *arguments],
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)


def support_bundle(file: Path) -> dict[str, str]:
    """Return the texts in a support bundle, by their names."""
    with tarfile.open(file) as archive:
        streams = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive}
        return {name: stream.read().decode() for name, stream in streams.items() if stream}
