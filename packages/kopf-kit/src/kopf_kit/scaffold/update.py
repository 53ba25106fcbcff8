"""`kopf-kit update`: brings a repository up to this kit, and keeps its author's edits.

Each file is merged three ways: as the template of the former kit has it, as the author has it, and
as the template of this kit has it. The former text is written again by the former kit itself, which
uv gets from the package index: no kit has the templates of all others.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kopf_kit import compatible
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError, answer, output
from kopf_kit.scaffold import additions, repository
from kopf_kit.scaffold.repository import Record

#: Writes what a former kit wrote for a repository into a folder.
Earlier = Callable[[Record, Path], None]
_PYPROJECT = "pyproject.toml"
_PIN = re.compile(r'"(kopf-runtime|kopf-kit)\b[^"]*"')
_VERSION = re.compile(r"^cliVersion: .*$", re.MULTILINE)


@dataclass
class Changes:
    """What an update did, as sentences for people."""

    notes: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def earlier(before: Record, folder: Path) -> None:
    """Let the former kit write the repository again; raise KitError if it cannot be installed."""
    if shutil.which("uv") is None:
        raise KitError("uv is missing, which installs the former kit: https://docs.astral.sh/uv/")
    kit = ["uv", "tool", "run", "--quiet", "--from", f"kopf-kit=={before.version}", "kopf-kit"]
    first, *others = before.kinds
    olm = [] if first.olm else ["--without=olm"]
    flags = ["--kind", first.kind, "--group", first.group, *olm, "--no-lock"]
    try:
        output([*kit, "new", first.name, folder, *flags], cwd=folder.parent, timeout=300)
        for each in others:
            flags = ["--group", each.group]
            output([*kit, "new", "kind", each.kind, *flags], cwd=folder, timeout=300)
    except KitError as error:
        raise KitError(
            f"kopf-kit {before.version}, which wrote this repository, cannot be had from the "
            f"package index to compare with; nothing was changed. uv says: {error.reason}"
        ) from error


def update(folder: Path, write_earlier: Earlier = earlier) -> Changes:
    """Update the repository in a folder; raise KitError, with nothing changed, if that fails."""
    before = repository.read(folder)
    _check(before)
    changes = Changes()
    if before.version == repository.version():
        changes.notes.append(
            f"this repository is of kopf-kit {before.version} already, as the kit that runs; "
            "`uvx kopf-kit@latest update` takes the newest"
        )
        return changes
    with tempfile.TemporaryDirectory() as beside:
        former, newer = Path(beside, "former"), Path(beside, "newer")
        write_earlier(before, former)
        _write_newer(before, newer)
        texts = [_texts(each) for each in (former, newer)]
    for path in sorted(texts[0].keys() | texts[1].keys()):
        _merge(folder, path, texts[0].get(path), texts[1].get(path), changes)
    if _PYPROJECT in changes.conflicts:
        changes.notes.append(f"uv.lock stays; run `uv lock` once {_PYPROJECT} is mended")
    elif (folder / "uv.lock").is_file():
        _lock(folder, changes)
    return changes


def _check(before: Record) -> None:
    """Raise KitError where an update cannot start."""
    if not before.version:
        raise KitError(
            f"{before.folder / 'PROJECT'} has no cliVersion, which says what kit wrote this "
            "repository; only what `kopf-kit new` wrote can be updated"
        )
    if compatible.version(before.version) > compatible.version(repository.version()):
        raise KitError(
            f"this repository is of kopf-kit {before.version}, and this is the older "
            f"{repository.version()}; run `uvx kopf-kit@latest update`"
        )
    status = answer(["git", "-C", before.folder, "status", "--porcelain"])
    if status is None:
        raise KitError(
            f"{before.folder} is not in a git repository, or git is missing; commit it (git init), "
            "so that `git diff` shows what the update changes"
        )
    if status:
        raise KitError(
            f"{before.folder} has uncommitted changes; commit them first, so that `git diff` "
            "shows what the update changes"
        )


def _write_newer(before: Record, folder: Path) -> None:
    first, *others = before.kinds
    repository.lay_out(repository.files(first), folder)
    for each in others:
        additions.kind(folder, each.kind, each.group)


def _texts(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): reading.text(file)
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] != ".git"
    }


def _merge(
    folder: Path, path: str, former: str | None, newer: str | None, changes: Changes
) -> None:
    """Bring what two templates differ in into one file, and say so."""
    file = folder / path
    ours = reading.text(file) if file.is_file() else None
    if former == newer or ours == newer:
        return
    if newer is None:
        if ours == former:
            file.unlink()
            changes.notes.append(f"{path} removed")
        elif ours is not None:
            changes.notes.append(f"{path} stays, because you changed it; the kit needs it no more")
    elif former is None and ours is not None:
        changes.notes.append(f"{path} stays yours; the kit has a new file of this name")
    elif former is None:
        repository.lay_out({Path(path): newer}, folder)
        changes.notes.append(f"{path} added")
    elif ours is None:
        changes.notes.append(f"{path} stays away, as you removed it; the kit has changed it")
    else:
        text, conflicts = _merged(_followed(ours, newer), _followed(former, newer), newer)
        file.write_text(text)
        changes.notes.append(f"{path} updated")
        if conflicts:
            changes.conflicts.append(path)


def _followed(text: str, newer: str) -> str:
    """Return a text with the newer one's pins and version, which are never in conflict."""
    pins = {match[1]: match[0] for match in _PIN.finditer(newer)}
    text = _PIN.sub(lambda match: pins.get(match[1], match[0]), text)
    version = _VERSION.search(newer)
    return _VERSION.sub(version[0], text) if version else text


def _merged(ours: str, former: str, newer: str) -> tuple[str, bool]:
    """Return the text with both changes, and whether it has marks where they are in conflict."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("yours", "former kit", "newer kit")]
        for file, text in zip(files, (ours, former, newer), strict=True):
            file.write_text(text)
        names = [part for file in files for part in ("-L", file.name)]
        run = subprocess.run(
            ["git", "merge-file", "-p", *names, *files],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if run.returncode > 127:  # otherwise the number of conflicts
        raise KitError(f"git merge-file: {run.stderr.strip()}")
    return run.stdout, run.returncode > 0


def _lock(folder: Path, changes: Changes) -> None:
    packages = [f"--upgrade-package={name}" for name in ("kopf-kit", "kopf-runtime")]
    if later := repository.write_lock(folder, folder, *packages):
        changes.notes.append(later)
    else:
        changes.notes.append("uv.lock updated")
