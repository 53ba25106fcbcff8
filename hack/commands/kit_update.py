"""`make kit-update FROM=…`: brings a newer kit into a repository that `make new` wrote.

FROM is a checkout of the repository that has the kit, or its URL, with `#` and a tag, branch or
commit behind it. That kit writes a repository with the answers that `make new` had here; what
differs from the kit that is here is the update. The author's files stay as they are; one that the
newer kit is the first to write comes once, unless the author has a file of that name. A file of the
kit that the author changed is merged, and where that is impossible, nothing is changed at all.
"""

import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from hack.commands import Subparsers
from hack.pack import kit_changes, kit_record
from hack.pack.kit_changes import Changes
from hack.pack.project import PROJECT, REFERENCE
from hack.rig import paths
from hack.rig.run import HackError, output
from hack.rig.steps import say

_EXAMPLE = f"FROM=../{REFERENCE.name}, a checkout, or FROM=https://github.com/myorg/{REFERENCE.name}#v0.2.0"


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("kit-update", help="bring a newer kit into this repository")
    parser.add_argument("origin", help="a checkout of the kit's repository, or URL#REF")
    parser.set_defaults(run=lambda arguments: update(arguments.origin))


def update(origin: str) -> None:
    """Run `make kit-update`; raise HackError where something is in its way."""
    _check(origin)
    with tempfile.TemporaryDirectory(prefix=f"{PROJECT.name}-kit-") as scratch:
        checkout = _checkout(origin, Path(scratch, "checkout"))
        newer = Path(scratch, "newer")
        _write(checkout, newer, origin)
        kit_record.offer(newer, kit_record.read(paths.CHECKOUT).author)
        changes = kit_changes.between(paths.CHECKOUT, newer, checkout)
        if changes.conflicts:
            raise HackError(_conflicts(changes))
        kit_record.keep(newer, changes.own)
        former, latter = (kit_record.read(root) for root in (paths.CHECKOUT, newer))
        if former == latter:
            say(f"The kit is {latter.version} already")
            return
        _carry_out(changes, newer, Path(scratch, "index"))
        say(f"==> The kit {latter.version}, in place of {former.version}")
        _tell(changes)


def _check(origin: str) -> None:
    """Raise HackError where there is no kit to update, or changes that are not committed."""
    if REFERENCE.root == paths.CHECKOUT:
        raise HackError(
            "this repository is where the kit is made; run `make kit-update` in a repository that "
            "`make new` wrote"
        )
    if not origin:
        raise HackError(f"FROM is missing: say for example {_EXAMPLE}")
    if changed := _git("status", "--porcelain").splitlines():
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise HackError(
            f"{changed[0][3:]}{more} differs from what is committed; commit it, or put it aside "
            "(git stash --include-untracked), so that the update can be told from your changes"
        )


def _checkout(origin: str, folder: Path) -> Path:
    """Return the checkout that FROM names, cloned into the folder where it is a URL."""
    if (Path(origin).expanduser() / "hack").is_dir():
        return Path(origin).expanduser().resolve()
    url, _, revision = origin.partition("#")
    try:
        output(["git", "clone", "--quiet", "--", url, folder], timeout=600)
        if revision:
            output(["git", "-C", folder, "checkout", "--quiet", revision, "--"], timeout=120)
    except HackError as error:
        raise HackError(
            f"FROM={origin} is neither a checkout nor a URL that git can clone; say for example "
            f"{_EXAMPLE}:\n{error}"
        ) from error
    return folder


def _write(checkout: Path, folder: Path, origin: str) -> None:
    """Have the newer kit write a repository with the answers that this one is made of."""
    answers = kit_record.read(paths.CHECKOUT)
    if not (checkout / "hack" / "scaffold" / "__main__.py").is_file():
        raise HackError(
            f"FROM={origin} has no kit that `make kit-update` can bring; say for example {_EXAMPLE}"
        )
    output(
        [sys.executable, "-m", "hack.scaffold", answers.name, answers.kind, answers.group, folder],
        cwd=checkout,
        env={
            "PROJECT": "",
            "PYTHONPATH": os.pathsep.join((str(checkout), str(checkout / "operator"))),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        timeout=120,
    )


def _conflicts(changes: Changes) -> str:
    former = kit_record.read(paths.CHECKOUT).files
    lines = [f"  {path}: {sentence}" for path, sentence in changes.conflicts.items()]
    added = [path for path in changes.conflicts if not _is_recorded(path, former)]
    example = next((path for path in changes.conflicts if path in former), None)
    if len(added) == len(lines):
        advice = "Do what is said of each, commit, and update again."
    else:
        advice = (
            f"Take your changes out of {'the others' if added else 'them'}, commit, and update "
            "again; then make the changes that you still need."
        )
    return "\n".join(
        [
            "the kit stays as it is, because these files cannot be updated:",
            *lines,
            advice,
            *(
                (f"The kit's own text of a file: git cat-file blob {former[example]} >{example}",)
                if example
                else ()
            ),
        ]
    )


def _is_recorded(path: str, files: Collection[str]) -> bool:
    """Tell whether the kit that is here has a file, or a part in it."""
    return path in files or (kit_changes.AUTHOR / path).as_posix() in files


def _tell(changes: Changes) -> None:
    for word, listed in (
        ("added", changes.added),
        ("updated", changes.updated),
        ("removed", changes.removed),
        ("merged with your changes", changes.merged),
        ("added; it is yours from now on", changes.brought),
        ("left as you have it", changes.kept),
    ):
        for path in listed:
            say(f"  {path} {word}")
    for path in changes.own:
        say(
            f"  {path} left as you have it; the kit would have its own there. If you prefer that, "
            f"replace yours, commit, and update again: cp {kit_changes.AUTHOR / path} {path}"
        )
    say("It is staged: run `make check`, and commit. `git reset --hard` takes the update back.")


def _carry_out(changes: Changes, newer: Path, index: Path) -> None:
    """Change the files, all or none of them, and stage the changes."""
    for path, text in changes.merged.items():
        (newer / path).parent.mkdir(parents=True, exist_ok=True)
        (newer / path).write_text(text)
    written = [
        *changes.added, *changes.updated, *changes.merged, *changes.brought,
        kit_record.FILE.as_posix(),
    ]  # fmt: skip
    listed = "\n".join(str(newer / path) for path in written).encode()
    command = ["git", "hash-object", "-w", "--no-filters", "--stdin-paths"]
    ids = output(command, cwd=paths.CHECKOUT, stdin=listed).split()
    within = _git("rev-parse", "--show-prefix").strip()  # a larger repository may have this one
    entries = [
        *(f"0 {'0' * 40}\t{within}{path}" for path in changes.removed),
        *(
            f"{_mode(newer / path)} {one}\t{within}{path}"
            for path, one in zip(written, ids, strict=True)
        ),
    ]
    scratch = {"GIT_INDEX_FILE": str(index)}
    output(["git", "read-tree", "HEAD"], cwd=paths.CHECKOUT, env=scratch)
    output(
        ["git", "update-index", "--index-info"],
        cwd=paths.CHECKOUT, env=scratch, stdin="\n".join([*entries, ""]).encode(),
    )  # fmt: skip
    tree = output(["git", "write-tree"], cwd=paths.CHECKOUT, env=scratch).strip()
    _git("read-tree", "-m", "-u", "HEAD", tree)


def _mode(file: Path) -> str:
    return "100755" if os.access(file, os.X_OK) else "100644"


def _git(*arguments: str) -> str:
    return output(["git", "-C", paths.CHECKOUT, *arguments], timeout=120)
