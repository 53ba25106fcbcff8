"""What a newer kit changes in a repository, file by file, beside what the author has changed.

Each file is compared in three versions: as the kit had it when it was brought in, as it is
committed, and as the newer kit has it. The author's own files are compared only where the kit has a
part in them (`hack/reference/author` has them as the kit wrote them). One that the newer kit is the
first to have comes once, where the author has no such file. Where the author has one, it stays, and
no text of the kit's is merged into it.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hack.pack import kit_record
from hack.rig.run import HackError, output

#: Where a repository has those of its author's files that the kit has a part in, as the kit wrote
#: them.
AUTHOR = Path("hack", "reference", "author")


@dataclass(frozen=True)
class Changes:
    """What a newer kit changes in a repository, by the paths of the files."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    #: The texts that have the author's changes and those of the newer kit.
    merged: dict[str, str] = field(default_factory=dict)
    #: The author's files that the newer kit is the first to have.
    brought: list[str] = field(default_factory=list)
    #: What the author changed or removed, and the newer kit has as before.
    kept: list[str] = field(default_factory=list)
    #: The author's files that the kit has a part in, and that were the author's before.
    own: list[str] = field(default_factory=list)
    #: Why a file can be neither the author's nor the newer kit's.
    conflicts: dict[str, str] = field(default_factory=dict)


class _Comparison:
    """A repository, a newer one as the kit writes it, and where former texts are found."""

    def __init__(self, repository: Path, newer: Path, origin: Path) -> None:
        self._repository, self._newer = repository, newer
        self._git = (repository, origin)
        former, theirs = kit_record.read(repository), kit_record.read(newer)
        self.former, self.theirs = former.files, theirs.files
        self.ours = _committed(repository)
        self._own = frozenset(former.own)
        #: The author's files that were not offered before.
        self.offered = set(theirs.author) - set(former.author or _ever_committed(repository))
        self.changes = Changes()

    def compare(self, path: str) -> None:
        """Compare a file of the kit."""
        former, ours, theirs = (ids.get(path) for ids in (self.former, self.ours, self.theirs))
        if ours == theirs:
            return
        if theirs == former or (ours is None and former is not None):
            self.changes.kept.append(path)
        elif ours is None and (obstacle := self._obstacle(path)):
            self.changes.conflicts[path] = f"the newer kit adds it, and {obstacle}"
        elif ours == former:
            self._list(former, theirs).append(path)
        elif former is None:
            self.changes.conflicts[path] = (
                "the newer kit adds it, and you have another file there; rename yours (git mv)"
            )
        elif theirs is None:
            self.changes.conflicts[path] = "you have changed it, and the newer kit has removed it"
        else:
            self._merge(path, former, Path(path))

    def compare_author_s(self, path: str) -> None:
        """Compare a file of the author's that the kit has a part in."""
        reference = (AUTHOR / path).as_posix()
        former, theirs = self.former.get(reference), self.theirs[reference]
        ours = self.ours.get(path)
        if ours in (None, theirs):
            return
        if former is None or (path in self._own and ours != former):
            self.changes.own.append(path)
        elif theirs == former:
            return
        elif ours == former:
            self.changes.merged[path] = (self._newer / reference).read_text()
        else:
            self._merge(path, former, Path(reference))

    def offer(self, path: str) -> None:
        """Bring a file of the author's that was not offered before, unless there is one."""
        if os.path.lexists(self._repository / path):
            return
        if obstacle := self._obstacle(path):
            self.changes.conflicts[path] = f"the newer kit adds it, and {obstacle}"
        else:
            self.changes.brought.append(path)

    def _obstacle(self, path: str) -> str | None:
        """Return what is in the way of a file that is not committed, and what to do about it."""
        file = self._repository / path
        if file.is_dir() and not file.is_symlink():
            return "you have a folder there; rename it (git mv)"
        if os.path.lexists(file):
            return "you have a file there that git ignores; move it away"
        for folder in Path(path).parents:
            parent = self._repository / folder
            is_file = parent.is_symlink() or (parent.exists() and not parent.is_dir())
            if is_file and folder.as_posix() not in self.former:
                return f"{folder} is a file of yours, not a folder; rename it (git mv)"
        return None

    def _list(self, former: str | None, theirs: str | None) -> list[str]:
        if theirs is None:
            return self.changes.removed
        return self.changes.added if former is None else self.changes.updated

    def _merge(self, path: str, former: str, newer: Path) -> None:
        ours = self._text(self.ours[path])
        base = self._text(former)
        if ours is None or base is None:
            self.changes.conflicts[path] = (
                "you and the newer kit have changed it, and the text that both began with is "
                "neither in this repository's history nor in that of FROM"
            )
            return
        merged = _merged(ours, base, (self._newer / newer).read_text())
        if merged is None:
            self.changes.conflicts[path] = "you and the newer kit have changed the same lines"
        else:
            self.changes.merged[path] = merged

    def _text(self, blob: str) -> str | None:
        for repository in self._git:
            try:
                return output(["git", "-C", repository, "cat-file", "blob", blob])
            except HackError:
                continue
        return None


def between(repository: Path, newer: Path, origin: Path) -> Changes:
    """Return what a newer kit changes in a repository.

    `newer` is a repository as that kit writes it with the same answers, and `origin` the checkout
    that the kit is from.
    """
    comparison = _Comparison(repository, newer, origin)
    for path in sorted(comparison.former.keys() | comparison.theirs.keys()):
        comparison.compare(path)
    for path in sorted(comparison.theirs):
        if Path(path).is_relative_to(AUTHOR):
            comparison.compare_author_s(Path(path).relative_to(AUTHOR).as_posix())
    for path in sorted(comparison.offered):
        comparison.offer(path)
    return comparison.changes


def _committed(repository: Path) -> dict[str, str]:
    """Return git's ids of all committed files, by their paths."""
    listed = output(["git", "-C", repository, "ls-tree", "-r", "-z", "HEAD"])
    lines = (line.split("\t", 1) for line in listed.split("\0") if line)
    return {path: columns.split()[2] for columns, path in lines}


def _ever_committed(repository: Path) -> set[str]:
    """Return the paths of all files that a repository has or had.

    Where an older kit wrote the record, this is what tells a file that the author removed.
    """
    log = ("log", "--format=", "--name-only", "--relative", "--no-renames", "-z", "HEAD")
    return set(output(["git", "-C", repository, *log]).split("\0"))


def _merged(ours: str, base: str, theirs: str) -> str | None:
    """Return a text with two changes of it; None where they meet."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_text(text)
        try:
            return output(["git", "merge-file", "--stdout", *files])
        except HackError:
            return None
