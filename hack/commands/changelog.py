"""`make release ARGS=changelog`: writes what this version changes into CHANGELOG.md."""

from hack.commands import Subparsers
from hack.pack import changelog, history
from hack.pack.project import PROJECT
from hack.rig.run import HackError
from hack.rig.steps import say


def add(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "release-changelog", help="write what changed since the last release"
    )
    parser.set_defaults(run=lambda _: write())


def write() -> None:
    """Write the section of this version again; raise HackError where the version is released."""
    if PROJECT.version in history.tagged(PROJECT.root):
        raise HackError(
            f"v{PROJECT.version} is tagged, and what is said of a release stays as it is; raise "
            "the version first (make bump VERSION=…)"
        )
    section = changelog.section(PROJECT.version)
    changelog.FILE.write_text(changelog.updated(changelog.current(), section))
    say(f"{changelog.FILE.relative_to(PROJECT.root)} written: edit the section for users, then")
    say("run `make generate`, which has Artifact Hub show the same")
