"""The life of the project, rehearsed in a clone: releases, a fix of an older one, and what follows.

    main   0.1.0 ── 0.1.1 ───── 0.2.0 ───────┬── head, which is released as 0.3.0
                       └── fixes ──── 0.1.2 ─┘ its record

Each release is made by the commands of the Makefile, as the guides tell its maintainers to.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kopf_kit.olm import catalog
from kopf_kit.project import shared
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import changelog, charts
from kopf_kit.release.artifacts import Published
from kopf_kit.release.signatures import Keys
from kopf_kit.rig import registry
from kopf_kit.rig.steps import step
from message_operator import __version__
from tests.release import releasing
from tests.release.releasing import CHECKOUT

_MAJOR, _MINOR, _PATCH, *_ = catalog.order(__version__)
#: The version that is checked out, or the next one where that is released already.
FIRST = f"{_MAJOR}.{_MINOR}.{_PATCH + (__version__ in catalog.known())}"
_PATCH = int(FIRST.rpartition(".")[2])
PATCH = f"{_MAJOR}.{_MINOR}.{_PATCH + 1}"
MINOR = f"{_MAJOR}.{_MINOR + 1}.0"
#: It follows `PATCH`, and comes after `MINOR`.
BACKPORT = f"{_MAJOR}.{_MINOR}.{_PATCH + 2}"
HEAD = f"{_MAJOR}.{_MINOR + 2}.0"
#: Those that are upgraded to `HEAD`.
RELEASES = (FIRST, PATCH, MINOR, BACKPORT)
#: The channel of the minor version that is fixed after the next one is out.
FIXES = f"stable-v{_MAJOR}.{_MINOR}"

_SECONDS = 1800


class Clone(releasing.Clone):
    """A clone in which `make` uses the virtual environment of the checkout."""

    def make(self, *arguments: str) -> str:
        """Run `make` as a maintainer does; return what it printed."""
        environment = Path(sys.prefix)
        own = (f"VENV={environment}", f"--assume-old={environment / '.ready'}")
        done = subprocess.run(
            ["make", *own, *arguments],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"make {' '.join(arguments)} failed:\n{said}"
        return said

    def commit(self, subject: str) -> None:
        """Commit all that was changed."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)


@dataclass(frozen=True)
class Life:
    """Releases in a registry, and the clone that they were made in."""

    clone: Clone
    #: The folder of the registry that has them.
    prefix: str
    keys: Keys

    @property
    def chart(self) -> str:
        """The chart in the registry, without a version."""
        return f"oci://{self.prefix}/charts/{PROJECT.name}"

    def published(self, version: str) -> Published:
        """Return what Helm installs of a release."""
        return Published(self.chart, ("--version", version, "--plain-http"), self.image(version))

    def catalog(self, version: str) -> str:
        """Return the catalog that was pushed with a release, by its digest."""
        return self._pinned(f"{PROJECT.name}-catalog:v{version}")

    def image(self, version: str) -> str:
        """Return the operator's image of a release, by its digest."""
        return self._pinned(f"{PROJECT.name}:{version}")

    def _pinned(self, name: str) -> str:
        pinned = registry.pinned(f"{self.prefix}/{name}")
        assert pinned, f"{name} is not in {self.prefix}"
        return pinned

    def live(self) -> None:
        """Make all releases."""
        clone = self.clone
        clone.git("switch", "--quiet", "--force-create", "main")
        self._release(FIRST)
        self._change("core: fix something", "resources.limits.memory", "257Mi")
        self._release(PATCH)
        self._change("chart: add something", "terminationGracePeriodSeconds", "31")
        self._release(MINOR)
        self._fix()
        with step(f"The record of {BACKPORT}, on the main branch"):
            clone.git("switch", "--quiet", "main")
            clone.git("checkout", "fixes", "--", f"catalog/{catalog.file(BACKPORT)}")
            ours = clone.folder / "CHANGELOG.md"
            theirs = clone.git("show", "fixes:CHANGELOG.md")
            ours.write_text(changelog.updated(ours.read_text(), f"{theirs}\n"))
            clone.make("generate")
            clone.commit(f"release: take the record of {BACKPORT}")
        self._release(HEAD)
        with step("Generated files of head"):
            clone.make("verify")

    def _fix(self) -> None:
        """Release a fix of the older minor version, as docs/olm.md says."""
        self.clone.git("switch", "--quiet", "--create", "fixes", f"v{PATCH}")
        self.clone.git("checkout", "main", "--", "catalog/bundles")
        self._change("core: fix something else", "resources.limits.memory", "258Mi")
        self.clone.make("bump", f"VERSION={BACKPORT}")
        self.clone.commit(f"release: raise the version to {BACKPORT}")
        self._release(BACKPORT)

    def _release(self, version: str) -> None:
        with step(f"Release {version}"):
            self.clone.make("release", f"VERSION={version}")

    def _change(self, subject: str, value: str, default: str) -> None:
        """Commit another default of a value in the chart, with all that follows from it."""
        values = self.clone.folder / shared.FOLDER.relative_to(CHECKOUT) / "chart" / "values.yaml"
        values.write_text(charts.with_values(values.read_text(), {value: default}))
        self.clone.make("generate")
        self.clone.commit(subject)
