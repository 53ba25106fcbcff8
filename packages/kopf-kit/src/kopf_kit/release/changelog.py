"""CHANGELOG.md: what each release changes for users, written from the subjects of the commits.

`bump` adds the section of a version, and `release changelog` writes it again. People
may edit it until the release. `kopf_kit.release.numbered` shows it on Artifact Hub.
"""

import re
import sys
from pathlib import Path

from kopf_kit.chart import templates
from kopf_kit.olm import catalog
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import paths, reading, run
from kopf_kit.rig.run import KitError

FILE = PROJECT.root / "CHANGELOG.md"

#: How git-cliff writes a section.
_CONFIGURATION = Path(__file__).with_suffix(".toml")

_HEADER = """\
# Changelog

What each release changes for those who install and use the operator.{}
"""
_POLICY = """ The
[policy](docs/policy.md) says what may change in which version."""

#: A section, its version, and its text below the heading.
_SECTION = re.compile(rf"^## ({catalog.VERSION.pattern}) .*\n((?:(?!## ).*\n)*)", re.MULTILINE)

#: What Artifact Hub calls a change, by the heading that it is under, or by its first word.
_KINDS = {
    "Security": "security",
    "Deprecated": "deprecated",
    "Add": "added",
    "Fix": "fixed",
    "Remove": "removed",
}


def current() -> str:
    """Return the changelog as it is."""
    return reading.text(FILE) if FILE.exists() else ""


def files(version: str) -> dict[Path, str]:
    """Return the changelog with a section of a version.

    An example in another operator's repository has none: the commits and tags are not its own.
    """
    if PROJECT.root != paths.CHECKOUT:
        return {}
    return {FILE: with_version(current(), version)}


def with_version(text: str, version: str) -> str:
    """Return a changelog with a section of a version; an existing section stays as it is."""
    if any(match[1] == version for match in _SECTION.finditer(text)):
        return text
    return updated(text, section(version))


def updated(text: str, section: str) -> str:
    """Return a changelog with a section put in the order of the versions, the newest first."""
    sections = {match[1]: match[0] for match in _SECTION.finditer(f"{text}\n{section}")}
    ordered = sorted(sections, key=catalog.order, reverse=True)
    policy = _POLICY if (PROJECT.root / "docs" / "policy.md").is_file() else ""
    return "\n".join(
        [_HEADER.format(policy), *(sections[version].strip() + "\n" for version in ordered)]
    )


def section(version: str, repository: Path = PROJECT.root) -> str:
    """Return the section of a version, made from the commits since the release before it.

    A release does not follow its own candidates: its users never had those.
    """
    if run.answer(["git", "-C", repository, "rev-parse", "--verify", "--quiet", "HEAD"]) is None:
        raise KitError(
            f"{repository} has no commit yet, and a changelog is made of commits: commit what is "
            "there (git commit), then repeat this command"
        )
    command = [
        *(Path(sys.executable).with_name("git-cliff"), "--config", _CONFIGURATION),
        *("--offline", "--unreleased", "--tag", f"v{version}"),
        *("--tag-pattern", "^v[0-9.]+" if "-" in version else "^v[0-9.]+$"),
    ]
    home = templates.read()["home"]
    return run.output(command, env={"HOME_PAGE": home}, cwd=repository).strip() + "\n"


def below_heading(text: str, version: str) -> str:
    """Return what a changelog says of a version, without the heading; empty if it says nothing."""
    section = next((match[0] for match in _SECTION.finditer(text) if match[1] == version), "")
    return section.partition("\n")[2].strip()


def changes(text: str, version: str, otherwise: str = "changed") -> list[dict[str, str]]:
    """Return what Artifact Hub shows as the changes of a version in a changelog.

    `otherwise` is the kind of those of which neither heading nor first word tells it.
    https://artifacthub.io/docs/topics/annotations/helm
    """
    # What only a distribution's users notice stands under its name, and is not the chart's.
    heading, entries, packages = "", [], PROJECT.root / "packages"
    for line in below_heading(text, version).splitlines():
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        elif line.startswith("- ") and not (heading and (packages / heading).is_dir()):
            description = line.removeprefix("- ")
            kind = _KINDS.get(heading) or _KINDS.get(description.split()[0], otherwise)
            entries.append({"kind": kind, "description": description})
    return entries
