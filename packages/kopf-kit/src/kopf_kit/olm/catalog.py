"""The file-based catalog: every release of the operator, and which release each one replaces.

`kopf-kit generate` writes it to catalog/, where the project records its releases. The bundle of a
release stays as it was released; the bundle of this version is generated again; the channels are
derived from both. Tests create other catalogs: `catalog` takes any releases.

https://olm.operatorframework.io/docs/reference/file-based-catalogs/
"""

import functools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kopf_kit.chart.templates import Manifest
from kopf_kit.olm import service_version
from kopf_kit.project import documents, releases, written
from kopf_kit.project.definition import PROJECT
from kopf_kit.project.releases import NAME, Place, Release
from kopf_kit.rig import reading, versions
from kopf_kit.rig.run import KitError

_dump = functools.partial(documents.dump, by="kopf_kit/olm/catalog.py of the chart and of olm/")
CATALOG = PROJECT.built / "catalog"
#: The file in which people tell that a release, a channel or the package should no longer be used.
DEPRECATIONS = PROJECT.root / "catalog" / "deprecations.yaml"
DOCKERFILE = PROJECT.built / "catalog.Dockerfile"

#: The image that serves a catalog.
OPM_IMAGE = f"quay.io/operator-framework/opm:{versions.OPM}"

#: A version of the project: as in semver, but without build metadata (`+…`).
VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:[0-9A-Za-z-]+\.)*[0-9A-Za-z-]+))?"
)


def order(version: str) -> tuple[Any, ...]:
    """Return a sort key with the order of https://semver.org; raise KitError if it is invalid."""
    match = VERSION.fullmatch(version)
    if match is None:
        raise KitError(f"{version!r} is not a version; use for example 1.2.3 or 1.2.3-rc.1")
    if any(len(number) > 9 for number in match.groups()[:3]):
        raise KitError(f"{version!r} has a number of more than 9 digits; use a smaller one")
    # A release comes after its candidates; numbers come before words, and by their value.
    candidate = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in (match[4] or "").split(".")
        if part
    )
    return (*map(int, match.groups()[:3]), not candidate, candidate)


def package(versions: Iterable[str]) -> Manifest:
    """Return the package of a catalog with these versions."""
    shown = service_version.csv(releases.current())["spec"]
    (icon,) = shown["icon"]
    return {
        "schema": "olm.package",
        "name": NAME,
        "defaultChannel": releases.default_channel(versions),
        "description": shown["description"],
        "icon": {"base64data": icon["base64data"], "mediatype": icon["mediatype"]},
    }


def channels(versions: Iterable[str]) -> list[Manifest]:
    """Return the channels: in each, every version replaces the one before it.

    `skipRange` lets any older version upgrade to it in one step. A version has the same entry in
    `stable` and in the channel of its minor version. So the first release of a minor version
    replaces the last one of the minor version before, and OLM upgrades a Subscription that is
    changed to the channel of the next minor version.
    """
    offered: dict[str, list[str]] = {}
    for version in sorted(versions, key=order):
        for channel in releases.channels(version):
            offered.setdefault(channel, []).append(version)
    return [
        {
            "schema": "olm.channel",
            "package": NAME,
            "name": channel,
            "entries": [
                _entry(version, offered[channel.partition("-v")[0]]) for version in offered[channel]
            ],
        }
        for channel in sorted(offered)
    ]


def headed(version: str) -> list[Manifest]:
    """Return the channels in which a version would be newer than all recorded releases."""
    return [
        channel
        for channel in channels({*known(), version})
        if channel["entries"][-1]["name"] == f"{NAME}.v{version}"
    ]


def placed(release: Release) -> Release:
    """Return a release with the `replaces` of the narrowest of its channels in its bundle.

    A bundle replaces one release for all of its channels. So the candidates since that release are
    skipped: in the channel that has them, too, only this one is then the newest.
    """
    versions = {*known(), release.version}
    (own,) = (
        channel
        for channel in channels(versions)
        if channel["name"] == releases.channels(release.version)[-1]
    )
    (entry,) = (entry for entry in own["entries"] if entry["name"] == release.name)
    before = entry.get("replaces", "")
    since = order(before.partition(".v")[2]) if before else order(release.version)
    between = [
        f"{NAME}.v{version}"
        for version in sorted(versions, key=order)
        if since < order(version) < order(release.version)
    ]
    heads = tuple(channel["name"] for channel in headed(release.version))
    return replace(release, place=Place(heads, before, tuple(between), entry.get("skipRange", "")))


def _entry(version: str, line: Sequence[str]) -> Manifest:
    """Return a version's entry in a channel, `line` being all versions that it may replace."""
    number = line.index(version)
    if number == 0:
        return {"name": f"{NAME}.v{version}"}
    return {
        "name": f"{NAME}.v{version}",
        "replaces": f"{NAME}.v{line[number - 1]}",
        "skipRange": f">={line[0]} <{version}",
    }


def entry(release: Release) -> Manifest:
    """Return a bundle's entry in a catalog, the same that `opm render` would make of its image."""
    csv = service_version.csv(release)
    spec = csv["spec"]
    owned = spec["customresourcedefinitions"]["owned"]
    metadata = {
        "annotations": csv["metadata"]["annotations"],
        "apiServiceDefinitions": {},
        "crdDescriptions": {"owned": owned},
        "labels": csv["metadata"]["labels"],
    }
    shown = (
        *("description", "displayName", "installModes", "keywords", "links"),
        *("maintainers", "maturity", "minKubeVersion", "provider"),
    )
    metadata |= {field: spec[field] for field in shown}
    return {
        "schema": "olm.bundle",
        "name": release.name,
        "package": NAME,
        "image": release.bundle_image,
        "properties": [
            *(
                {
                    "type": "olm.gvk",
                    "value": {
                        "group": crd["name"].partition(".")[2],
                        "kind": crd["kind"],
                        "version": crd["version"],
                    },
                }
                for crd in owned
            ),
            {"type": "olm.package", "value": {"packageName": NAME, "version": release.version}},
            {"type": "olm.csv.metadata", "value": dict(sorted(metadata.items()))},
        ],
        "relatedImages": [*spec["relatedImages"], {"name": "", "image": release.bundle_image}],
    }


def catalog(releases: Sequence[Release]) -> dict[str, str]:
    """Return the texts of the files of a catalog with these releases, by their paths in it."""
    return {
        **_graph([release.version for release in releases]),
        **{file(release.version): _dump(entry(release)) for release in releases},
    }


def _graph(versions: Collection[str]) -> dict[str, str]:
    return {"package.yaml": _dump(package(versions)), "channels.yaml": _dump(*channels(versions))}


def file(version: str) -> str:
    """Return the path of a version's bundle in a catalog."""
    return f"bundles/v{version}.yaml"


def known() -> list[str]:
    """Return the versions that the catalog in git records as releases, in no order."""
    return [version for version in _bundles() if _recorded(version)]


def unreleased() -> list[Path]:
    """Return the files of versions that were never released and that this version replaces."""
    return [
        CATALOG / file(version)
        for version in _bundles()
        if version != PROJECT.version and not _recorded(version)
    ]


def check_records(version: str) -> None:
    """Raise KitError if the catalog in git lacks a release that precedes a future version.

    The version would then not replace that release; on a branch for an older minor version it
    would even become the newest of all.
    """
    if not PROJECT.has_olm:
        return
    recorded = {version, *known()}
    released = {tag for tag in releases.tagged(CATALOG.parent) if VERSION.fullmatch(tag)}
    if missing := sorted(released - recorded, key=order):
        tags = ", ".join(f"v{tag}" for tag in missing)
        raise KitError(
            f"catalog/bundles/ has no record of these tagged releases: {tags}. Without them, "
            f"{version} would replace the wrong release. Take the records from the branch that has "
            "them (git checkout main -- catalog/bundles), or create them as docs/olm.md describes"
        )


def _bundles() -> list[str]:
    """Return the versions whose bundles are in the catalog in git, in no order."""
    bundled = []
    for file in (CATALOG / "bundles").glob("*.yaml"):
        version = file.stem.removeprefix("v")
        try:
            order(version)
        except KitError as error:
            raise KitError(f"{file.relative_to(CATALOG.parent)}: {error}") from error
        bundled.append(version)
    return bundled


def dockerfile() -> str:
    """Return the Dockerfile of the catalog's image; its build context is the folder of catalog/."""
    return f"""\
# Generated by kopf_kit/olm/catalog.py: do not edit, `kopf-kit generate`
ARG OPM_IMAGE={OPM_IMAGE}

# On the build platform: the cache is the same on all platforms.
FROM --platform=${{BUILDPLATFORM}} ${{OPM_IMAGE}} AS cache
COPY catalog /configs
# The cache is filled here, because a catalog's Pod never fills an empty one. opm locks it even for
# reading, so it is in the image's /tmp, where every user may write.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM ${{OPM_IMAGE}}
COPY --from=cache /configs /configs
COPY --from=cache /tmp/cache /tmp/cache
LABEL operators.operatorframework.io.index.configs.v1=/configs
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
"""


def with_release(release: Release) -> dict[str, str]:
    """Return the texts of the files that a release adds or changes in the catalog in git."""
    return {
        **_graph({*known(), release.version}),
        file(release.version): _dump(entry(release)),
        **deprecations(),
    }


def deprecations() -> dict[str, str]:
    """Return what people write in catalog/deprecations.yaml, which every catalog carries.

    https://olm.operatorframework.io/docs/reference/file-based-catalogs/#olmdeprecations
    """
    return {DEPRECATIONS.name: reading.text(DEPRECATIONS)} if DEPRECATIONS.exists() else {}


def record(release: Release, root: Path | None = None) -> Path:
    """Record a release in the catalog in git for good; return its file.

    `root` is a copy of the project's folder to write into.
    """
    check_recordable(release)
    texts, entry_file = with_release(release), file(release.version)
    folder = CATALOG
    if PROJECT.built != PROJECT.root:
        # Of a nested project's catalog, git has only the records of releases.
        texts, folder = {entry_file: texts[entry_file]}, PROJECT.root / CATALOG.name
    if root is not None:
        folder = root / CATALOG.name
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder / entry_file


def check_recordable(release: Release) -> None:
    """Raise KitError if a different release of that version is recorded."""
    ours, text = CATALOG / file(release.version), with_release(release)[file(release.version)]
    if _recorded(release.version) and reading.text(ours) != text:
        raise KitError(
            f"{ours.relative_to(CATALOG.parent)}: {release.version} is recorded already, as a "
            "different release; releases never change, so raise the version"
        )


def _recorded(version: str) -> bool:
    """Tell whether the catalog in git records a version as a release."""
    return recorded_image(version) is not None


def recorded_image(version: str) -> str | None:
    """Return a release's bundle image, by digest, from the catalog in git.

    Return None if the catalog does not record the version as a release.
    """
    ours = CATALOG / file(version)
    image = reading.document(ours, written.Record)["image"] if ours.exists() else ""
    return image if "@" in image else None


def files() -> dict[Path, str]:
    """Return the texts of the catalog's files, except the records of releases, which stay."""
    texts = with_release(releases.current())
    if _recorded(PROJECT.version):
        del texts[file(PROJECT.version)]
    return {**{CATALOG / path: text for path, text in texts.items()}, DOCKERFILE: dockerfile()}
