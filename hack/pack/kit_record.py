"""Which version of the kit a repository has: the file hack/kit.yaml.

`make new` and `make kit-update` write it in the repositories that they write. It names each file of
the kit with git's id of its text, so `hack.pack.kit_changes` tells what the author has changed. It
also names the author's files that were offered, so that one which a newer kit adds comes once.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hack.rig.run import HackError

FILE = Path("hack", "kit.yaml")
_HEADER = """\
# The kit that this repository has, and git's id of each of its files. `make kit-update FROM=…`
# brings a newer one and writes this file; do not edit it.
"""


class Record(msgspec.Struct, frozen=True):
    """The kit of a repository, and what its author answered to `make new`."""

    #: As `git describe` calls the commit that it was taken from.
    version: str
    name: str
    kind: str
    group: str
    #: Git's id of each file's text, by the file's path.
    files: dict[str, str]
    #: The author's files that were offered so far; empty where an older kit wrote this record.
    author: list[str] = []
    #: Those that the author had before the kit: nothing of the kit's is merged into them.
    own: list[str] = []


def write(folder: Path, record: Record) -> None:
    """Write the record into a repository."""
    (folder / FILE).write_text(_HEADER + msgspec.yaml.encode(record).decode())


def read(folder: Path) -> Record:
    """Return the record of a repository; raise HackError with what is wrong with it."""
    path = folder / FILE
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=Record)
    except OSError as error:
        raise HackError(
            f"{path}: {error.strerror}; `make new` writes this file, which says what the kit is"
        ) from error
    except msgspec.MsgspecError as error:
        raise HackError(f"{path}: {error}; restore it as `make new` wrote it") from error


def offer(folder: Path, former: Iterable[str] = ()) -> None:
    """Record the author's files of a repository that was just laid out, and those of before."""
    record = read(folder)
    every = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    own = every - record.files.keys() - {FILE.as_posix()}
    write(folder, msgspec.structs.replace(record, author=sorted(own.union(former))))


def keep(folder: Path, own: Iterable[str]) -> None:
    """Record the files into which nothing of the kit's is merged."""
    write(folder, msgspec.structs.replace(read(folder), own=sorted(own)))


def identify(file: Path) -> str:
    """Return git's id of a file's text."""
    text = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
