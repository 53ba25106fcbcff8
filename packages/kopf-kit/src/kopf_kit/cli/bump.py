"""`kopf-kit bump x.y.z`: raises the version; `kopf-kit generate` then writes it everywhere.

`kopf-kit release changelog` writes what this version changes into CHANGELOG.md once more.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from kopf_kit.chart import templates
from kopf_kit.olm import catalog
from kopf_kit.project import packages, releases
from kopf_kit.project.definition import PROJECT
from kopf_kit.release import changelog
from kopf_kit.rig import paths, reading
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

_CSV = PROJECT.root / "olm" / "csv.yaml"


@click.command()
@click.argument("version")
def command(version: str) -> None:  # noqa: D103 (the program has its help)
    bump(version)


@click.command()
def changelog_command() -> None:  # noqa: D103
    write_changelog()


def bump(version: str) -> None:
    """Write the version, its date, today, its section of the changelog and the runbooks.

    Raise KitError if the version cannot follow, or an earlier release is not recorded.
    """
    check(version)
    catalog.check_records(version)
    today = f"{datetime.now(UTC):%Y-%m-%d}T00:00:00Z"
    texts = {
        **(_adopted(version, today) if PROJECT.adopted else _own(version, today)),
        **changelog.files(version),
        PROJECT.root / templates.RUNBOOKS: templates.runbooks(),
        **(packages.raised(version) if PROJECT.root == paths.CHECKOUT else {}),
    }
    with reading.all_or_none() as write:
        for file, text in texts.items():
            write(file, text)
    for file in texts:
        print(f"{file.relative_to(paths.CHECKOUT)} written")
    if version == PROJECT.version:
        say(f"{version} is checked out already: only its date changes, to {today[:10]}")


def check(version: str, current: str = PROJECT.version) -> None:
    """Raise KitError if a version cannot follow the one that is checked out."""
    if not version:
        raise KitError(f"the version is missing; give one, for example {_next(current)}")
    try:
        order = catalog.order(version)
    except KitError as error:
        leave_out = "; leave out the v" if version.startswith("v") else ""
        raise KitError(f"{error}{leave_out}") from error
    if order < catalog.order(current):
        raise KitError(
            f"{version} is older than {current}, which is checked out: versions only go up; give "
            f"for example {_next(current)}"
        )
    if version in catalog.known():
        raise KitError(
            f"{version} is released ({catalog.file(version)} in catalog/ records it), and a "
            f"release cannot change; give for example {_next(version)}"
        )


def _next(version: str) -> str:
    major, minor, patch = version.partition("-")[0].split(".")
    return f"{major}.{minor}.{int(patch) + ('-' not in version)}"


def _own(version: str, today: str) -> dict[Path, str]:
    """Return the files with the version and the day of an operator on the runtime."""
    file = PROJECT.version_file
    texts = {file: _replaced(file, {r'^__version__ = ".*"$': f'__version__ = "{version}"'})}
    if PROJECT.has_olm:
        texts[_CSV] = _replaced(_CSV, {r'^    createdAt: ".*"$': f'    createdAt: "{today}"'})
    return texts


def _adopted(version: str, today: str) -> dict[Path, str]:
    """Return PROJECT of an operator on plain kopf, which has them; its code stays as it is."""
    file = PROJECT.root / "PROJECT"
    lines = {
        r"^    version: \d.*$": f"    version: {version}",
        r"^    created: .*$": f'    created: "{today[:10]}"',
    }
    return {file: _replaced(file, lines)}


def _replaced(file: Path, lines: Mapping[str, str]) -> str:
    """Return a file's text with lines replaced; raise KitError unless each matches once."""
    text = reading.text(file)
    for pattern, line in lines.items():
        text, times = re.subn(pattern, line, text, flags=re.MULTILINE)
        if times != 1:
            name = file.relative_to(paths.CHECKOUT)
            raise KitError(f"{name}: {times} lines look like {line}; there must be one")
    return text


def write_changelog() -> None:
    """Write the section of this version again; raise KitError where the version is released."""
    if PROJECT.version in releases.tagged(PROJECT.root):
        raise KitError(
            f"v{PROJECT.version} is tagged, so its notes cannot change; raise the version first "
            "(`kopf-kit bump X.Y.Z`)"
        )
    section = changelog.section(PROJECT.version)
    changelog.FILE.write_text(changelog.updated(changelog.current(), section))
    say(f"{changelog.FILE.relative_to(PROJECT.root)} written: edit the section for users, then")
    say("run `kopf-kit generate`, which has Artifact Hub show the same")
