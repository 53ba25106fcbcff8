"""CHANGELOG.md, in which people write what each release changes: Artifact Hub shows the same."""

import re

from kopf_kit.olm import catalog
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

FILE = PROJECT.root / "CHANGELOG.md"

#: A section, its version, and its text below the heading.
_SECTION = re.compile(
    rf"^## \[?({catalog.VERSION.pattern})\]?(?: .*)?\n((?:(?!## ).*\n)*)", re.MULTILINE
)

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


def check(text: str, version: str) -> None:
    """Raise KitError if a changelog says nothing of a version that is no candidate."""
    if text and "-" not in version and not below_heading(text, version):
        raise KitError(
            f"CHANGELOG.md says nothing of {version}, where users look for what it changes: add a "
            f"section `## {version} (DATE)`, and commit it"
        )


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
