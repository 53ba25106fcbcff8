"""`kopf-kit release page x.y.z`: the page of a release on GitHub, with its files.

The workflow `release` runs it after `kopf-kit release`, which wrote the files. `gh`, GitHub's own
program, makes the page, with the token in GH_TOKEN, and publishes it when it has all files. If the
page is there already, even unpublished, it gets files and text again: the command can be repeated.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from kopf_kit.commands.release import FOLDER
from kopf_kit.pack import catalog, changelog, history
from kopf_kit.pack.publication import statements
from kopf_kit.rig import paths
from kopf_kit.rig.run import Argument, HackError, answer, output
from kopf_kit.rig.steps import say, step

_SECONDS = 600


@click.command()
@click.argument("version")
def command(version: str) -> None:
    """Make the page of a release on GitHub, with its files."""
    make(version)


def make(version: str) -> None:
    """Make the page; raise HackError where the files or `gh` are missing, or GitHub refuses."""
    gh, files = program(), _files(version)
    tag = f"v{version}"
    with step(f"Page of {tag} on GitHub"):
        if answer([gh, "release", "view", tag], timeout=_SECONDS) is not None:
            _run(gh, "upload", tag, "--clobber", *files)
            _run(gh, "edit", tag, "--draft=false", *_options(version), notes=notes(version))
        else:
            _run(gh, "create", tag, *_options(version), *files, notes=notes(version))
    say(f"{statements.home()}/releases/tag/{tag} has {len(files)} files")


def notes(version: str) -> str:
    """Return what the page says: what the changelog says of the version, and how to verify it."""
    verify = f"{statements.home()}/blob/v{version}/docs/verify.md"
    changes = changelog.below_heading(changelog.current(), version)
    return f"{changes}\n\n[Verify what you run]({verify}) says how to check what is here.\n"


def _options(version: str) -> Sequence[str]:
    """Return what the page is; a fix of an older minor version does not become the latest."""
    tagged = (tag for tag in history.tagged(paths.CHECKOUT) if catalog.VERSION.fullmatch(tag))
    releases = [tag for tag in tagged if "-" not in tag]
    is_latest = all(catalog.order(tag) <= catalog.order(version) for tag in releases)
    latest = f"--latest={str(is_latest).lower()}"
    kind = "--prerelease" if "-" in version else latest
    return ("--verify-tag", "--title", f"v{version}", "--notes-file", "-", kind)


def _files(version: str) -> list[Path]:
    """Return the files of a release, and the packages of its charts."""
    folders = (FOLDER / version, FOLDER / f"{version}-charts")
    if not version or not all(folder.is_dir() for folder in folders):
        raise HackError(
            f"{FOLDER} does not have the files of a release {version!r}; "
            "`kopf-kit release` writes them"
        )
    return sorted(file for folder in folders for file in folder.iterdir() if file.is_file())


def program() -> str:
    """Return `gh`; raise HackError where it is missing."""
    if program := shutil.which("gh"):
        return program
    raise HackError("gh, GitHub's program, is not on the PATH; https://cli.github.com has it")


def _run(gh: str, verb: str, *arguments: Argument, notes: str = "") -> None:
    output([gh, "release", verb, *arguments], stdin=notes.encode(), timeout=_SECONDS)
