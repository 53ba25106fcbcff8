"""Compares the declared kinds with those of the last release: nothing that is stored may break.

`kopf-kit verify` calls it. The code of the release's tag is asked for its kinds with today's kit
and runtime, so that a change is the author's. The rules are those of `rules.crd_upgrade`.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kopf_kit.pack import adopted, declared, history
from kopf_kit.pack.project import PROJECT
from kopf_kit.pack.rules.crd_upgrade import unsafe
from kopf_kit.rig.steps import say

Manifest = dict[str, Any]


def problems() -> Iterator[str]:
    """Yield a sentence for each breaking change since the last release, unless it is accepted."""
    tag = history.last(PROJECT.root)
    if not tag or (former := _released(tag)) is None:
        return
    breaking = list(changes(former, definitions()))
    for change in breaking:
        if not PROJECT.accepted.get(change):
            yield (
                f"{change} since {tag}. Declare a new version of the kind, and serve this one "
                "beside it; or, if nobody can be hit, say why in PROJECT, where `accepted` has "
                "this change as a key"
            )
    for change in PROJECT.accepted.keys() - set(breaking):
        say(f"note: PROJECT accepts {change!r}, which has not changed since {tag}: take it out")


def changes(former: list[Manifest], present: list[Manifest]) -> Iterator[str]:
    """Yield the changes from some CRDs to others that break a user or an object."""
    now = {crd["metadata"]["name"]: crd for crd in present}
    for crd in former:
        if (name := crd["metadata"]["name"]) in now:
            breaking = (*unsafe(crd, now[name]), *_abandoned(crd, now[name]))
            yield from (f"{name}: {change}" for change in breaking)
        else:
            yield f"{name}: may not be removed"


def _abandoned(former: Manifest, present: Manifest) -> Iterator[str]:
    """Yield the versions whose users had no release in which to move to another one."""
    before, now = (
        {version["name"]: version["served"] for version in crd["spec"]["versions"]}
        for crd in (former, present)
    )
    if not any(before[name] and served for name, served in now.items() if name in before):
        for name in (name for name, served in before.items() if served and name in now):
            yield (
                f"spec.versions: {name} may not stop being served before a release has served "
                "another version beside it"
            )


def definitions() -> list[Manifest]:
    """Return the CRDs of PROJECT's operator."""
    if PROJECT.adopted:
        return adopted.definitions(PROJECT)
    return declared.definitions(declared.of_the_project())


def _released(tag: str) -> list[Manifest] | None:
    """Return the CRDs of a release; None, and a note, if its code cannot be asked any more."""
    archive = history.git(PROJECT.root, "archive", "--format=tar", tag, ".").stdout
    with tempfile.TemporaryDirectory() as name:
        folder, answer = Path(name, "released"), Path(name, "crds.json")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        environment = {key: value for key, value in os.environ.items() if key != "PROJECT"}
        done = subprocess.run(
            [sys.executable, "-m", __name__, answer],
            cwd=folder,
            env=environment,
            timeout=120,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            crds: list[Manifest] = json.loads(answer.read_text())
            return crds
    why = (done.stderr.strip().splitlines() or ["it ended"])[-1]
    say(f"note: the kinds are not compared with those of {tag}, whose code cannot be run: {why}")
    return None


if __name__ == "__main__":
    # Before an installed operator, which is today's.
    sys.path.insert(0, str(PROJECT.sources))
    Path(sys.argv[1]).write_text(json.dumps(definitions()))
