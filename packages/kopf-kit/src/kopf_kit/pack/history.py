"""The releases according to git, where each has a tag such as v0.1.0.

Used by `kopf_kit.pack.catalog`, which must know each of them, and by `crd_history`.
"""

import subprocess
from pathlib import Path


def git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run git in a repository; do not raise if it fails."""
    return subprocess.run(
        ["git", "-C", repository, *arguments], capture_output=True, timeout=60, check=False
    )


def last(repository: Path) -> str:
    """Return the tag of the last release; empty before the first one."""
    if not (repository / ".git").exists():
        return ""
    done = git(repository, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    return done.stdout.decode().strip()


def tagged(repository: Path) -> list[str]:
    """Return the versions in the tags of all branches.

    An example's folder in another operator's repository has none, because the tags are not its own.
    """
    if not (repository / ".git").exists():
        return []
    done = git(repository, "tag", "--list", "v*")
    return [tag.removeprefix("v") for tag in done.stdout.decode().split()]
