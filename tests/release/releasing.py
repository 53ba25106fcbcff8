"""Releases of a clone of the checkout, as `make release` does them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest

from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import in_registry
from kopf_kit.release import signatures
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import paths, registry

CHECKOUT = Path(__file__).parents[2]
PASSPHRASE = "only of these tests"
#: A release that builds its images for two platforms, on a machine that is busy otherwise.
_SECONDS = 1500
NOBODY = {
    name: value
    for who in ("AUTHOR", "COMMITTER")
    for name, value in (
        (f"GIT_{who}_NAME", "The tests"),
        (f"GIT_{who}_EMAIL", "tests@example.com"),
    )
}


@dataclass
class Clone:
    """A clone of what is committed here, with nobody's settings of git."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, origin: Path, folder: Path, **environment: str) -> Self:
        subprocess.run(["git", "clone", "--quiet", "--no-tags", origin, folder], check=True)
        clone = cls(folder, {"COSIGN_PASSWORD": PASSPHRASE, **environment})
        # A clone of a checkout without a branch has no such reference.
        clone.git("update-ref", "refs/remotes/origin/HEAD", "HEAD")
        return clone

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", self.folder, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **NOBODY},
        )
        return done.stdout.strip()

    def variables(self) -> dict[str, str]:
        """Return the environment of a command that takes the clone's code."""
        return {
            **os.environ,
            **NOBODY,
            "PYTHONPATH": paths.python_path(self.folder),
            **self.environment,
        }

    def kit(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the Makefile to its end."""
        process = self.start(*arguments, **environment)
        try:
            out, err = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            kill(process)
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a command of the Makefile, with the packages that are here and the clone's code."""
        return subprocess.Popen(
            [sys.executable, "-m", "kopf_kit", *arguments],
            cwd=self.folder,
            env={**self.variables(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def release(self, version: str, **environment: str) -> str:
        """Release a version; return what is said of it."""
        done = self.kit("release", version, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refused(self, version: str, **environment: str) -> str:
        """Try to release a version, which must be refused; return the sentence that says why."""
        done = self.kit("release", version, **environment)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        _, _, sentence = done.stderr.partition("error: ")
        assert len(sentence.strip().splitlines()) == 1, sentence
        return sentence.strip()

    def files(self, version: str) -> Path:
        return self.folder / "build" / "release" / version


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder, by their paths in it."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def kill(process: "subprocess.Popen[str]") -> None:
    """End a command with all that it started, as a machine does that loses its power."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    parents = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    family = [process.pid]
    for member in family:
        family += [pid for pid, parent in parents if parent == member]
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def make_keys(folder: Path) -> Keys:
    """Make keys that the passphrase of these tests opens."""
    made = Keys(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(signatures.PASSPHRASE, PASSPHRASE)
        made.make()
    return made


def secrets(keys: Path) -> dict[str, str]:
    """Return the variables that say where keys are, and the passphrase that opens them."""
    return {"COSIGN_PASSWORD": PASSPHRASE, "KEYS": str(keys)}


def push_images(prefix: str, scratch: Path, commit: str) -> dict[str, str]:
    """Push small images in the place of those that only a container engine builds.

    The operator's and that of its Pods are found in the registry, as if a release had been
    interrupted behind them. Return the variable that names the catalog's.
    """
    ours = in_registry(prefix)
    catalog = f"{prefix}/{PROJECT.name}-catalog:v{ours.version}"
    return push_stand_ins([ours.image, *ours.pod_images.values()], catalog, scratch, commit)


def push_stand_ins(
    images: Iterable[str], catalog: str, scratch: Path, commit: str
) -> dict[str, str]:
    """Push small images, as if built of a commit; return the variable that names the catalog's."""
    layer = scratch / "image.tar"
    files = {
        "app/kopf-1.45.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: kopf\n"
        "Version: 1.45.2\nLicense: MIT\n",
        "var/lib/dpkg/status": "Package: libc6\nStatus: install ok installed\n"
        "Version: 2.41-12\nArchitecture: amd64\n",
    }
    packed = {name: text.encode() for name, text in files.items()}
    layer.write_bytes(registry.archive(packed, datetime.fromtimestamp(0, UTC)))
    platforms = ("linux/amd64", "linux/arm64")
    labels = {"org.opencontainers.image.revision": commit}
    for ref in images:
        registry.push_for(platforms, layer, ref, labels)
    return {"CATALOG_IMG": registry.push_for(platforms, layer, catalog, {})}
