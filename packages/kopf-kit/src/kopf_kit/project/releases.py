"""The versions of an operator: those that git knows, and their images and channels.

A release is made of a commit. What releasing commits itself is written in a worktree of its own, so
the checkout is never half changed, however a release ends.
"""

import contextlib
import functools
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import KitError, output


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


NAME = PROJECT.name

#: The channel with every version, and the channel with releases only.
CANDIDATE, STABLE = "candidate", "stable"


class _Image(msgspec.Struct):
    """An image in values.yaml."""

    repository: str
    registry: str | None = ""
    tag: str | None = ""


@dataclass(frozen=True)
class Release:
    """A version and its images, which a real release names by digest."""

    version: str
    #: The operator's image.
    image: str
    #: The images of the Pods that the operator makes, by their names in PROJECT.
    pod_images: Mapping[str, str] = field(hash=False)
    #: The bundle's own image.
    bundle_image: str
    #: What the bundle says of its place among the releases; `catalog.placed` fills it in.
    place: "Place | None" = None

    @property
    def name(self) -> str:
        """Its name in OLM."""
        return f"{NAME}.v{self.version}"


@dataclass(frozen=True)
class Place:
    """Which releases a bundle replaces, for catalogs that are made of bundles alone."""

    #: The channels whose newest release it is.
    channels: tuple[str, ...]
    #: The names of the release that it replaces, if any, and of those between the two.
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""


def channels(version: str) -> tuple[str, ...]:
    """Return the channels that offer a version; only `candidate` offers one such as 1.2.0-rc.1.

    Each minor version has its own channel, named like `opm` does, such as `stable-v1.2`, which
    offers fixes to users who stay with that minor version.
    """
    if "-" in version:
        return (CANDIDATE,)
    major, minor, _ = version.split(".")
    return (CANDIDATE, STABLE, f"{STABLE}-v{major}.{minor}")


def default_channel(versions: Iterable[str]) -> str:
    """Return the default channel: `stable` once it has a release, else `candidate`."""
    return STABLE if any(STABLE in channels(version) for version in versions) else CANDIDATE


@functools.cache
def current() -> Release:
    """Return the checked-out version, with the chart's default images."""
    image = _default_image("image")
    return Release(
        version=PROJECT.version,
        image=image,
        pod_images={pods.name: _default_image(pods.values) for pods in PROJECT.images},
        bundle_image=f"{image.rpartition(':')[0]}-bundle:v{PROJECT.version}",
    )


def _default_image(where: str) -> str:
    """Return the image at a path in values.yaml, without Helm, which the demo may not have yet."""
    file = PROJECT.chart / "values.yaml"
    part = reading.document(file, dict[str, Any])
    for name in where.split("."):
        if name not in part:
            raise KitError(f"{file}: the image {where}, which PROJECT names, is not there; add it")
        part = reading.shaped(part[name], dict[str, Any], f"{file}: {where}")
    image = reading.converted(part, _Image, f"{file}: {where}")
    repository = "/".join(filter(None, (image.registry, image.repository)))
    return f"{repository}:{image.tag or PROJECT.version}"


def in_registry(prefix: str) -> Release:
    """Return the checked-out version, with the names of its images in a registry."""
    version = PROJECT.version
    return Release(
        version=version,
        image=f"{prefix}/{NAME}:{version}",
        pod_images={
            name: f"{prefix}/{ref.rpartition('/')[2]}" for name, ref in current().pod_images.items()
        },
        bundle_image=f"{prefix}/{NAME}-bundle:v{version}",
    )


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


def commit_of(version: str) -> str | None:
    """Return the commit that a version's tag names; None where it is not tagged."""
    done = git(paths.CHECKOUT, "rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}")
    return done.stdout.decode().strip() or None


def head() -> str:
    """Return the commit that is checked out."""
    return _git("rev-parse", "HEAD").strip()


def is_same(revision: str) -> bool:
    """Tell whether a commit has what is checked out, in all but catalog/."""
    done = git(paths.CHECKOUT, "diff", "--quiet", revision, "HEAD", "--", ".", ":!catalog")
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
