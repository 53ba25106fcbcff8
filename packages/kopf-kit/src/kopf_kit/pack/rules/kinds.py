"""The rules for a bundle's kinds: their examples, and their descriptions in consoles."""

import json
from collections.abc import Iterator
from typing import Any

from kopf_kit.pack.rules.package import Document, Manifest, Package, rule


def _examples(package: Package, annotation: str) -> Any:
    """Return an annotation's JSON, or None if it is missing or invalid."""
    try:
        return json.loads(package.csv.get("metadata", "annotations", annotation) or "")
    except ValueError:
        return None


@rule
def examples(package: Package) -> Iterator[str]:
    """Find owned kinds without an example, and examples whose spec or status the schema has not.

    A kind that consoles are told to hide needs none, and an example need not have a status.
    https://sdk.operatorframework.io/docs/testing-operators/scorecard/ ("CRDs have validation")
    """
    csv = package.csv
    first = "operatorframework.io/initialization-resource"
    listed = _examples(package, "alm-examples")
    if not isinstance(listed, list):
        yield csv.wrong("metadata", "annotations", "alm-examples", what="is not a JSON list")
        return
    if not isinstance(_examples(package, first), dict):
        yield csv.wrong("metadata", "annotations", first, what="is not a JSON object")
    objects = [x for x in listed if isinstance(x, dict)]
    hidden = _examples(package, "operators.operatorframework.io/internal-objects") or []
    for crd in package.crds:
        for what in _of_kind(crd, objects, hidden=crd.get("metadata", "name") in hidden):
            yield csv.wrong("metadata", "annotations", "alm-examples", what=what)


def _of_kind(crd: Document, objects: list[Manifest], *, hidden: bool) -> Iterator[str]:
    """Yield the mistakes in the examples of a kind, which need not be of all its versions."""
    kind, group = crd.get("spec", "names", "kind"), crd.get("spec", "group")
    versions = {f"{group}/{served['name']}": served for served in crd.get("spec", "versions")}
    ours = [x for x in objects if x.get("kind") == kind and x.get("apiVersion") in versions]
    if not ours and not hidden:
        yield f"none of {next(iter(versions))} {kind}"
    for example in ours:
        version = versions[example["apiVersion"]]
        for part in ("spec", *({"status"} & {*example})):
            declared = fields(version, part)
            odd = sorted(set(example.get(part) or {"nothing": None}) - set(declared))
            if odd and declared:
                name = example.get("metadata", {}).get("name")
                yield f"{name}: {part} has {', '.join(odd)}, which the schema has not"


def fields(version: Manifest, part: str) -> Manifest:
    """Return the fields of spec or status; an adopted operator's CRD may leave them open."""
    schema = version["schema"]["openAPIV3Schema"].get("properties", {})
    properties: Manifest = schema.get(part, {}).get("properties", {})
    return properties


@rule
def descriptors(package: Package) -> Iterator[str]:
    """Find fields of the kind without a descriptor, and owned kinds without a description.

    https://sdk.operatorframework.io/docs/testing-operators/scorecard/ ("Spec fields with …")
    """
    where = ("spec", "customresourcedefinitions", "owned")
    crds = {crd.get("metadata", "name"): crd for crd in package.crds}
    for i, owned in enumerate(package.csv.get(*where) or []):
        for key in ("description", "displayName", "resources"):
            if not owned.get(key):
                yield package.csv.wrong(*where, i, key, what="is missing")
        crd = crds.get(owned["name"])
        if crd is None:
            yield package.csv.wrong(*where, i, "name", what="is not a CRD of the bundle")
            continue
        versions = {x["name"]: x for x in crd.get("spec", "versions")}
        if owned["version"] not in versions:
            yield package.csv.wrong(*where, i, "version", what="is not a version of the CRD")
            continue
        version = versions[owned["version"]]
        for part in ("spec", "status"):
            key = f"{part}Descriptors"
            for keys, what in _of_part(part, owned.get(key) or [], fields(version, part)):
                yield package.csv.wrong(*where, i, key, *keys, what=what)


def _of_part(
    part: str, shown: list[Manifest], fields: Manifest
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield where among the descriptors of spec or status something is wrong, and what."""
    paths = {descriptor["path"] for descriptor in shown}
    for path in sorted(set(fields) ^ paths):
        yield (), f"{part}.{path} {'is not in the schema' if path in paths else 'is not shown'}"
    for j, descriptor in enumerate(shown):
        for field in ("description", "displayName", "x-descriptors"):
            if not descriptor.get(field):
                yield (j, field), "is missing"
