"""A release that is killed at each of its steps in turn ends as one that nothing interrupts."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_kit.pack.publication import packages, signatures
from kopf_kit.pack.publication.signatures import Keys
from kopf_kit.rig import oci
from message_operator import __version__
from tests.release import registry, releasing
from tests.release.registry import Door
from tests.release.releasing import CHECKOUT, Clone
from tests.support import package_index

_CHARTS = ("charts/message-operator",)
_IMAGES = tuple(f"message-operator{suffix}" for suffix in ("", "-bundle", "-catalog", "-release"))
_PACKAGES = sorted(file.parent.name for file in (CHECKOUT / "packages").glob("*/pyproject.toml"))
#: What a registry and an index get in a release, apart from the images that are there before.
_STEPS = {
    *(f"{chart} {tag}" for chart in _CHARTS for tag in (__version__, "artifacthub.io")),
    *(f"message-operator-bundle {tag}" for tag in (f"v{__version__}-amd64", f"v{__version__}")),
    f"message-operator-release v{__version__}",
    *(f"packages/{name} {__version__}" for name in _PACKAGES),
    *(f"packages/{name} signature" for name in _PACKAGES),
    *(f"{name} signature" for name in (*_CHARTS, *_IMAGES, "busybox")),
    *(
        f"{name.replace('-', '_')}-{__version__}{kind}"
        for name in _PACKAGES
        for kind in (".tar.gz", "-py3-none-any.whl")
    ),
}


@pytest.fixture
def door(scratch: Path) -> Iterator[Door]:
    """The name of a registry that is empty."""
    with registry.serving(scratch / "killed") as address, Door(address).open() as door:
        yield door


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Door]:
    """A package index that is empty."""
    with package_index.serving(tmp_path / "index") as address:
        door = Door(address.removeprefix("http://").partition("/")[0])
        with door.open():
            yield door


class Killer:
    """What kills a release at the first step that none was killed at before."""

    def __init__(self, steps: set[str]) -> None:
        self.left = set(steps)
        self._process: subprocess.Popen[str]
        self._has_ended = False
        self._lock = threading.Lock()

    def run(self, clone: Clone) -> tuple[int, str]:
        """Release; return how that ended, and what it said."""
        with self._lock:
            self._process = clone.start("release", __version__)
            self._has_ended = False
        _, said = self._process.communicate(timeout=600)
        return self._process.returncode, said

    def mood(self, path: str) -> str:
        """Tell what a registry does when it gets a manifest, or an index when it gets a file."""
        name, _, tag = path.removeprefix("/v2/you/").partition("/manifests/")
        step = f"{name} {'signature' if tag.startswith('sha256') else tag}".strip()
        with self._lock:
            if step in self.left and not self._has_ended:
                self.left.remove(step)
                self._has_ended = True
                releasing.kill(self._process)
            return "hang up" if self._has_ended else "serve"


def test_a_release_that_is_killed_at_each_step_ends_as_one_that_is_not(
    door: Door, index: Door, keys: Keys, tmp_path: Path
) -> None:
    clone, other = (_clone(tmp_path / name, door, keys) for name in ("clone", "other"))
    clone.environment |= _images(clone, door, tmp_path) | package_index.ANYBODY
    clone.environment["INDEX"] = f"http://{index.name}/simple/"
    _kill_behind_the_commit(clone)
    killer = Killer(_STEPS)
    door.mood = index.mood = killer.mood

    while (ended := killer.run(clone))[0] == -signal.SIGKILL:
        assert clone.git("tag") == "", "a version is tagged that is not complete"

    assert ended[0] == 0, ended[1]
    assert killer.left == set(), "the release has other steps than these"
    assert clone.git("tag") == f"v{__version__}"
    assert clone.git("status", "--porcelain") == ""
    assert clone.git("log", "--format=%s", "origin/HEAD..") == f"release: record {__version__}"
    for line in (clone.files(__version__) / "images.txt").read_text().splitlines():
        ref = line.split()[1]
        for each in (ref, *oci.listed(ref)):
            assert signatures.signed(keys, each), each
    for file in packages.files(clone.files(__version__)):
        assert (tmp_path / "index" / file.name).read_bytes() == file.read_bytes()
    killed = _outcome(clone, door)
    with registry.serving(tmp_path / "registry") as address:
        door.registry, door.mood = address, lambda _: "serve"
        other.environment |= _images(other, door, tmp_path)
        other.release(__version__)
        assert _outcome(other, door) == killed


def _clone(folder: Path, door: Door, keys: Keys) -> Clone:
    return Clone.of(CHECKOUT, folder, KEYS=str(keys.folder), REGISTRY=f"{door.name}/you")


def _images(clone: Clone, door: Door, scratch: Path) -> dict[str, str]:
    return releasing.push_images(f"{door.name}/you", scratch, clone.git("rev-parse", "HEAD"))


def _kill_behind_the_commit(clone: Clone) -> None:
    """Kill the first release that commits something, before that is checked out."""
    hook = clone.folder / ".git" / "hooks" / "post-commit"
    hook.write_text('#!/bin/sh\nrm "$0"\nkill -KILL $(ps -o ppid= -p $PPID)\n')
    hook.chmod(0o755)


def _outcome(clone: Clone, door: Door) -> dict[str, object]:
    """Return all that a release makes, but for what has a time or a chance number in it.

    Those are signatures, the charts' manifests for them, and what names those by their digests.
    """
    tags = registry.content(door.name)
    charts = {name for name in tags if name.startswith("you/charts/") and __version__ in name}
    carrier = f"you/message-operator-release:v{__version__}"
    unlike = {name for name in tags if ":sha256-" in name} | charts | {carrier}
    return {
        **{name: digest for name, digest in tags.items() if name not in unlike},
        **{name: _package(f"{door.name}/{name}") for name in charts},
        **{
            name: content
            for name, content in releasing.contents(clone.files(__version__)).items()
            if name != "images.txt" and not name.startswith("checksums.txt")
        },
    }


def _package(chart: str) -> str:
    """Return the digest of a chart's package, which lies beside its signature."""
    layers = oci.manifest(chart)["layers"]
    (package,) = (each["digest"] for each in layers if "chart.content" in each["mediaType"])
    return str(package)
