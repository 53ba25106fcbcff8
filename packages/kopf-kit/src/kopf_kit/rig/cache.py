"""Parts that are built once and cached outside the checkout; used by every module that builds.

A part is a folder `<name>-<version>-<hash of its recipe>`. It is built under another name and
renamed when it is complete, so an existing part is always complete, even if an earlier run was
interrupted. A lock makes a second run wait for the first instead of colliding with it.
"""

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from kopf_kit.rig import paths
from kopf_kit.rig.run import HackError, check_not_stopping, elapsed
from kopf_kit.rig.steps import say

#: Seconds between two attempts to acquire a lock.
_POLL = 0.5


def digest(*recipe: str | bytes | Path) -> str:
    """Return a short hash of a recipe: texts, files, and folders with their contents."""
    total = hashlib.sha256()
    for piece in recipe:
        if isinstance(piece, Path):
            for file in sorted(piece.rglob("*")) if piece.is_dir() else [piece]:
                if file.is_file() and "__pycache__" not in file.parts:
                    total.update(file.relative_to(piece.parent).as_posix().encode() + b"\0")
                    total.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            text = piece.encode() if isinstance(piece, str) else piece
            total.update(hashlib.sha256(text).digest())
    return total.hexdigest()[:10]


@contextlib.contextmanager
def lock(name: str, patience: float = 60 * 60) -> Iterator[None]:
    """Hold a lock, so that no other run, in this or another process, does the same work.

    A run that has to wait prints a message, and raises HackError after `patience` seconds.
    """
    folder = paths.cache() / "lock"
    folder.mkdir(exist_ok=True)
    began = time.monotonic()
    with (folder / name).open("w") as file:
        while not _taken(file):
            check_not_stopping()
            waited = time.monotonic() - began
            if waited > patience:
                raise HackError(
                    f"another run has been working on {name} for {elapsed(waited)}; "
                    f"it holds the lock {file.name}. Wait for it or stop it, then try again"
                )
            if waited < _POLL:
                say(f"    another run is working on {name}; waiting for it")
            time.sleep(_POLL)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def part(name: str, version: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a part; if it is missing, `make` fills it once."""
    folder = paths.cache() / f"{name}-{version}-{recipe}"
    if folder.is_dir():
        return folder
    with lock(f"part-{name}"):
        if folder.is_dir():  # another run has built it while this one waited
            return folder
        prefix = f".{folder.name}."
        for left_over in folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(left_over)  # left by a killed run: we hold the lock now
        unfinished = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder
