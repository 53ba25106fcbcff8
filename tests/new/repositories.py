"""Git repositories, for the tests of what a newer kit does to them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


class Repository:
    """A git repository, with somebody who commits to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        """Run git; return what it printed."""
        who = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
        return subprocess.check_output(["git", *who, *arguments], cwd=self.folder, text=True)

    def read(self, path: str) -> str:
        """Return a file's text."""
        return (self.folder / path).read_text()

    def edit(self, path: str, former: str, text: str) -> None:
        """Replace a text in a file, or write a new file where `former` is empty; commit it."""
        file = self.folder / path
        assert not former or former in file.read_text()
        file.write_text(file.read_text().replace(former, text, 1) if former else text)
        self.commit()

    def remove(self, path: str) -> None:
        """Remove a file; commit that."""
        (self.folder / path).unlink()
        self.commit()

    def commit(self) -> None:
        """Commit all that is there."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--message=a change")

    def begin(self) -> None:
        """Begin a history with all that is there as its first commit."""
        shutil.rmtree(self.folder / ".git", ignore_errors=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def clone(self, folder: Path) -> "Repository":
        """Return another one of the same commits."""
        self.git("clone", "--quiet", ".", str(folder))
        return Repository(folder)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Python as its Makefile does."""
        search = os.pathsep.join((str(self.folder), str(self.folder / "operator")))
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env={**os.environ, "PROJECT": "", "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def update(self, origin: str | Path) -> str:
        """Update the kit, which must succeed; return what was said."""
        ended = self.run("hack", "kit-update", str(origin))
        said = ended.stdout + ended.stderr
        assert ended.returncode == 0, said
        return said

    def refused(self, origin: str | Path) -> str:
        """Update the kit, which must be refused and change nothing; return what was said."""
        before = self.git("status", "--porcelain"), self.git("write-tree")
        ended = self.run("hack", "kit-update", str(origin))
        said = ended.stdout + ended.stderr
        assert ended.returncode == 1, said
        assert "\nerror: " in said
        assert (self.git("status", "--porcelain"), self.git("write-tree")) == before
        return said

    def changed(self) -> set[str]:
        """Return what differs from the last commit, as `git status` tells it."""
        return set(self.git("status", "--porcelain").splitlines())


def kit_in(folder: Path) -> Repository:
    """Return the kit as it is checked out, in a repository of its own."""
    kit = Repository(folder)
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in subprocess.check_output(listed, cwd=CHECKOUT, text=True).split("\0"):
        if name and (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    kit.begin()
    return kit
