"""The commit that a release is made of, and the commits that releasing adds.

What is committed is written in a worktree of its own. So the checkout is never half changed,
however a release ends, and what is changed in it is always the user's. Used by
`kopf_kit.cli.release`.
"""

import contextlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kopf_kit.project import releases
from kopf_kit.rig import paths
from kopf_kit.rig.run import KitError, output

_WORKTREE = paths.BUILD / "release" / "worktree"


def check_clean() -> None:
    """Raise KitError where the checkout has changes that are not committed."""
    if changed := _git("status", "--porcelain").splitlines():
        more = f" and {len(changed) - 1} more differ" if len(changed) > 1 else " differs"
        raise KitError(
            f"{changed[0][3:]}{more} from what is committed, and a release is made of a "
            "commit; commit it, or put it aside (git stash --include-untracked)"
        )


def commit() -> str:
    """Return the commit that a release is made of.

    It is the last that changed anything but catalog/: what releasing records there changes nothing
    that is published before.
    """
    return _git("log", "-1", "--format=%H", "--", ".", ":!catalog").strip()


def date() -> datetime:
    """Return the date of that commit, the only date in a release."""
    return datetime.fromtimestamp(int(_git("log", "-1", "--format=%ct", commit())), UTC)


def tagged(version: str) -> str | None:
    """Return the commit that a version's tag names; None where it is not tagged."""
    done = releases.git(
        paths.CHECKOUT, "rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}"
    )
    return done.stdout.decode().strip() or None


def head() -> str:
    """Return the commit that is checked out."""
    return _git("rev-parse", "HEAD").strip()


def trees() -> list[str]:
    """Return git's hash of the content that is checked out, and of what releasing changed in it."""
    former = []
    for line in _git("log", "-5", "--format=%T %s").splitlines():
        tree, _, subject = line.partition(" ")
        former.append(tree)
        if not subject.startswith("release: "):
            break
    return former


def is_same(revision: str) -> bool:
    """Tell whether a commit has what is checked out, in all but catalog/."""
    done = releases.git(paths.CHECKOUT, "diff", "--quiet", revision, "HEAD", "--", ".", ":!catalog")
    return done.returncode == 0


def tag(version: str) -> None:
    """Tag what is checked out as a version."""
    _git("tag", f"v{version}")


@contextlib.contextmanager
def change(subject: str) -> Iterator[Path]:
    """Yield a copy of the checkout to change; then commit the changes, and check them out."""
    _remove_worktree()
    _git("worktree", "add", "--quiet", "--detach", str(_WORKTREE), "HEAD")
    try:
        yield _WORKTREE
        _git("add", "--all", at=_WORKTREE)
        if _git("status", "--porcelain", at=_WORKTREE):
            _git("commit", "--quiet", "--message", subject, at=_WORKTREE)
            changed = _git("rev-parse", "HEAD", at=_WORKTREE).strip()
            _git("merge", "--quiet", "--ff-only", changed)
    finally:
        _remove_worktree()


def _remove_worktree() -> None:
    shutil.rmtree(_WORKTREE, ignore_errors=True)
    _git("worktree", "prune")


def _git(*arguments: str, at: Path = paths.CHECKOUT) -> str:
    return output(["git", "-C", at, *arguments], timeout=120)
