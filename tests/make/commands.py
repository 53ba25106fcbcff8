"""The Makefile's commands, for the tests here and for those by OLM."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


class Make:
    """The commands of the Makefile, as a user types them."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.options: tuple[str, ...] = ()
        self.environment = {**os.environ, "CLUSTER": "kind", "IMG": "", **environment}

    def __call__(self, *arguments: str, timeout: float = 600) -> str:
        """Run `make` with targets and variables; return what it printed. It must succeed."""
        ended = self._run(arguments, timeout)
        said = ended.stdout + ended.stderr
        assert ended.returncode == 0, f"make {' '.join(arguments)} failed:\n{said}"
        return said

    def refused(self, *arguments: str) -> str:
        """Run `make`, which must fail with one line that says what to do; return that line."""
        ended = self._run(arguments, 120)
        said = ended.stdout + ended.stderr
        lines = said.splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        assert ended.returncode != 0, f"make {' '.join(arguments)} was not refused:\n{said}"
        assert len(errors) == 1, said
        assert all(line.startswith("make") for line in lines[errors[0] + 1 :] if line), said
        return lines[errors[0]]

    def start(self, *arguments: str, log: Path) -> "subprocess.Popen[bytes]":
        """Start `make` in a process group of its own, as a shell does; its output goes to a log."""
        with log.open("wb") as out:
            return subprocess.Popen(
                ["make", *self.options, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
            )

    def _run(
        self, arguments: tuple[str, ...], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["make", *self.options, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
