"""Checks the bundle and the catalog by all rules, and by OLM's own programs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kopf_kit.olm import catalog
from kopf_kit.olm import (
    rules as rules,  # its rules list themselves
)
from kopf_kit.olm.package import RULES, Package, rule
from kopf_kit.olm.rules import DIGEST
from kopf_kit.rig import tools
from kopf_kit.rig.run import KitError, output


@rule
def check_replaces_availability(package: Package) -> Iterator[str]:
    """Find channel entries that replace an unknown version."""
    bundles = {blob.get("name") for blob in package.of("olm.bundle")}
    for channel in package.of("olm.channel"):
        for i, entry in enumerate(channel.get("entries")):
            replaced = entry.get("replaces")
            if replaced is not None and replaced not in bundles:
                name = channel.get("name")
                what = f"channel {name}: no bundle {replaced} for {entry['name']} to replace"
                yield channel.wrong("entries", i, "replaces", what=what)


@rule
def check_pruned_graph(package: Package) -> Iterator[str]:
    """Find a `skipRange` without `replaces`: it would remove older versions from the channel."""
    for channel in package.of("olm.channel"):
        for i, entry in enumerate(channel.get("entries") or []):
            skipped = entry.get("skipRange")
            if skipped and not entry.get("replaces"):
                what = f"{entry['name']} must say what it replaces, too"
                yield channel.wrong("entries", i, "skipRange", what=what)


@rule
def releases_name_images_by_digest(package: Package) -> Iterator[str]:
    """Find images without a digest in a release: every bundle except this version's is one."""
    for blob in package.of("olm.bundle"):
        if blob.get("name") == package.csv.get("metadata", "name"):
            continue
        images: list[tuple[tuple[str | int, ...], Any]] = [(("image",), blob.get("image"))]
        related = blob.get("relatedImages") or []
        images += [(("relatedImages", i, "image"), x["image"]) for i, x in enumerate(related)]
        for keys, image in images:
            if not DIGEST.search(image or ""):
                what = f"{image} of the release {blob.get('name')} has no digest (@sha256:…)"
                yield blob.wrong(*keys, what=what)


@rule
def this_version_is_the_newest_of_its_minor(package: Package) -> Iterator[str]:
    """Find a catalog without the bundle, or with a newer or later one of the same minor version.

    Other minor versions do not count: a fix for 0.1 may come after 0.2.0.
    """
    name = package.csv.get("metadata", "name")
    dates = {}
    for blob in package.of("olm.bundle"):
        for entry in blob.get("properties") or []:
            if entry["type"] == "olm.csv.metadata" and _minor(blob.get("name")) == _minor(name):
                dates[blob.get("name")] = entry["value"]["annotations"].get("createdAt", "")
    if name not in dates:
        yield package.csv.wrong("metadata", "name", what=f"the catalog has no {name}")
        return
    newest = max(dates, key=lambda name: catalog.order(name.partition(".v")[2]))
    if newest != name:
        yield package.csv.wrong("metadata", "name", what=f"the catalog has the newer {newest}")
    for other, date in dates.items():
        if date > dates[name]:
            what = f"{dates[name]} is before the day of {other}; olm/csv.yaml says it"
            yield package.csv.wrong("metadata", "annotations", "createdAt", what=what)


def _minor(name: str) -> str:
    """Return the common prefix of the names of a minor version's releases."""
    return ".".join(name.split(".")[:3])


__all__ = ["RULES", "findings", "problems"]


def problems(bundle: Path, catalog: Path, released: bool = False) -> list[str]:
    """Return a sentence for each mistake in a bundle and a catalog.

    `released` says that the bundle is submitted, so it must name its images by digest.
    """
    try:
        package = Package(bundle, catalog, released)
    except KitError as error:
        return [str(error)]
    return [f"{sentence} ({name})" for name, rule in RULES.items() for sentence in rule(package)]


def findings(bundle: Path, *container_tool: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each error or warning of OLM's own validators about a bundle.

    The pipeline's rules `check_osdk_bundle_validate_operatorhub` and `…_operator_framework` are
    these: `operator-sdk bundle validate` has no others (kopf_offline/go/olm-validate). One of them
    inspects the images, and runs only with a container tool that pulls them.
    """
    program = tools.path("olm-validate")
    return output([program, bundle, *container_tool], timeout=300, env=env).splitlines()
