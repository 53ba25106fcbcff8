"""Keeps the version current in documents that people write; `kopf-kit generate` updates them.

The version is written only in the operator's `__version__`. Everything else that contains it is
generated as a whole, except these documents, in which only the version is replaced. In Chart.yaml,
the images, the changes and the samples that Artifact Hub shows are replaced, too. The changes are
those of CHANGELOG.md, in which people write what each release changes.
"""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kopf_kit.chart import values
from kopf_kit.olm import catalog
from kopf_kit.project import adopted, documents, samples
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import current
from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

_CHART = values.CHART / "Chart.yaml"
_WRITTEN = PROJECT.written_chart / "Chart.yaml"
_DOCUMENTS = (
    *sorted(PROJECT.root.glob("README*.md")),
    *sorted((PROJECT.root / "docs").glob("*.md")),
)

#: What precedes the version: in Chart.yaml, in an image's tag, in a git tag, in a channel.
_BEFORE = (
    *("^version: ", "^appVersion: ", rf"/{PROJECT.name}(?:-bundle|-catalog)?:v?"),
    # A kubectl plugin's links, and what it prints about an operator and a CRD.
    *(f"/{PROJECT.name}/blob/v", rf"{PROJECT.name} \(", rf"{PROJECT.kinds[0].crd}/v1 \("),
    *(r"/releases/download/v", "newTag: ", r"REGISTRY=\S+ VERSION=", rf"{PROJECT.name}\.v"),
    # The chart, as Argo CD, Terraform and Helm name it.
    *("targetRevision: ", '^  version += "'),
    rf"--version (?=\S+ --namespace {PROJECT.name}\b)",
)
_VERSION = r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]*[0-9A-Za-z])?"
_NAMED = re.compile(rf"({'|'.join(_BEFORE)}){_VERSION}", re.MULTILINE)
_CHANNEL = re.compile(r"\bstable-v\d+\.\d+\b")
_PRERELEASE = re.compile(r'(?<=artifacthub\.io/prerelease: )"\w+"')
_CHANGES = re.compile(r"(?<=artifacthub\.io/changes: \|\n)(?: {4}.*\n)+")
_IMAGES = re.compile(r"(?<=artifacthub\.io/images: \|\n)(?: {4}.*\n)+")
_EXAMPLES = "artifacthub.io/crdsExamples"
_SAMPLES = re.compile(r"(?<=artifacthub\.io/crdsExamples: \|\n)(?: {4}.*\n|\n(?=\n| {4}))+")
_HOME = re.compile(r"^home: (\S+)$", re.MULTILINE)

_CHANGELOG = PROJECT.root / "CHANGELOG.md"

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


def files() -> dict[Path, str]:
    """Return the texts of these documents with the current version, by path."""
    version = PROJECT.version
    texts = {file: named(reading.text(file), version) for file in _DOCUMENTS}
    chart = named(adopted.chart(PROJECT), version)
    chart = with_changes(chart, version, catalog.known(), changelog())
    return {**texts, _CHART: _IMAGES.sub(lambda _: _images(), with_samples(chart))}


def with_samples(text: str) -> str:
    """Return Chart.yaml with the samples that PROJECT lists; raise KitError if it has no place."""
    filled, places = _SAMPLES.subn(lambda _: textwrap.indent(samples.listed(), "    "), text)
    if not places:
        raise KitError(
            f"{_WRITTEN}: `kopf-kit generate` finds no place for the samples; write, in "
            f"`annotations`, `{_EXAMPLES}: |` and, four spaces into the next line, `# the samples`"
        )
    return filled


def dropped() -> list[str]:
    """Return the examples that only Chart.yaml has: `kopf-kit generate` removes them."""
    annotations = adopted.metadata(PROJECT).get("annotations") or {}
    examples = reading.load(annotations.get(_EXAMPLES, ""), _WRITTEN) or []
    shown = reading.shaped(examples, list[Any], f"{_WRITTEN}: {_EXAMPLES}")
    kept = {_called(manifest) for manifest in samples.manifests().values()}
    return [called for called in map(_called, shown) if called not in kept]


def _called(manifest: Any) -> str:
    match manifest:
        case {"kind": kind, "metadata": {"name": name}}:
            return f"{kind} {name}"
    return str(manifest)


def _images() -> str:
    """Return the images of the operator and its Pods, as Artifact Hub shows them."""
    release = current()
    images = {PROJECT.name: release.image, **release.pod_images}
    listed = (f"    - name: {name}\n      image: {ref}\n" for name, ref in images.items())
    return "".join(listed)


def named(text: str, version: str) -> str:
    """Return a text with the version in it replaced."""
    text = _NAMED.sub(rf"\g<1>{version}", text)
    text = _CHANNEL.sub(f"stable-v{'.'.join(version.split('.')[:2])}", text)
    return _PRERELEASE.sub('"true"' if "-" in version else '"false"', text)


def with_changes(text: str, version: str, releases: Iterable[str], log: str = "") -> str:
    """Return Chart.yaml with the changes of a version, which Artifact Hub shows.

    They come from the changelog; if it has none for the version, there is a link to the commits
    since the release before it. `releases` are all of them. In the first one all is new.
    """
    former = _before(version, releases)
    kind = "changed" if former else "added"
    changes = _changes(log, version, kind) or [_commits(text, version, former)]
    shown = textwrap.indent(documents.text(changes), "    ")
    return _CHANGES.sub(lambda _: shown, text)


def _before(version: str, releases: Iterable[str]) -> str:
    """Return the release before a version, or an empty text.

    Candidates of a release do not count as the release before it, because its users never had them.
    """
    before = [
        release
        for release in releases
        if catalog.order(release) < catalog.order(version)
        and ("-" in version or "-" not in release)
    ]
    return max(before, key=catalog.order, default="")


def _commits(text: str, version: str, former: str) -> dict[str, Any]:
    """Return a change that links to all commits since the release before a version."""
    if not former:
        return {"kind": "added", "description": "The first release"}
    home = _HOME.findall(text)[0]
    return {
        "kind": "changed",
        "description": f"All changes since {former}",
        "links": [{"name": "Commits", "url": f"{home}/compare/v{former}...v{version}"}],
    }


def changelog() -> str:
    """Return the changelog as it is."""
    return reading.text(_CHANGELOG) if _CHANGELOG.exists() else ""


def check_changelog(text: str, version: str) -> None:
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


def _changes(text: str, version: str, otherwise: str = "changed") -> list[dict[str, str]]:
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
