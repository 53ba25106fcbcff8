"""The rules for what an author writes into the bundle; `check_…` are the pipeline's."""

import base64
import json
import re
from collections.abc import Iterator

from kopf_kit.olm import catalog
from kopf_kit.olm.package import Document, Package, rule
from kopf_kit.project.definition import PROJECT

#: https://docs.redhat.com/en/documentation/openshift_container_platform/4.16/html/operators/developing-operators#osdk-csv-annotations-infra_osdk-generating-csvs
FEATURES = (
    *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@rule
def check_required_fields(package: Package) -> Iterator[str]:
    """Find required fields of the CSV that are missing or malformed."""
    csv = package.csv
    texts = {
        ("spec", "displayName"): r"(?s).{3,50}",
        ("spec", "description"): r"(?s).{20,}",
        ("spec", "version"): catalog.VERSION.pattern,
    }
    for keys, pattern in texts.items():
        yield from _text(csv, *keys, pattern=pattern)
    for field in ("maintainers", "links"):
        if not csv.get("spec", field):
            yield csv.wrong("spec", field, what="is missing")
    for i, icon in enumerate(csv.get("spec", "icon") or []):
        try:
            base64.b64decode(icon.get("base64data", "!"), validate=True)
        except ValueError:
            yield csv.wrong("spec", "icon", i, "base64data", what="is not base64")


def _text(document: Document, *keys: str, pattern: str) -> Iterator[str]:
    value = document.get(*keys)
    if value is None:
        yield document.wrong(*keys, what="is missing")
    elif not re.fullmatch(pattern, str(value)):
        yield document.wrong(*keys, what=f"{value!r} does not match {pattern}")


@rule
def csv_annotations(package: Package) -> Iterator[str]:
    """Find missing or malformed annotations that catalogs show.

    https://sdk.operatorframework.io/docs/advanced-topics/operator-capabilities/operator-capabilities/
    https://olm.operatorframework.io/docs/advanced-tasks/operator-suggested-namespace/
    """
    csv, part = package.csv, "annotations"
    patterns = {
        "capabilities": "Basic Install|Seamless Upgrades|Full Lifecycle|Deep Insights|Auto Pilot",
        "categories": ".+",
        "certified": "false",
        "containerImage": r"[^\s@]+(:[\w.-]+|@sha256:[0-9a-f]{64})",
        "createdAt": _TIME.pattern,
        "description": ".{10,135}",
        "repository": "https://.+",
        "support": ".{3,}",
        "operatorframework.io/suggested-namespace": r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        **{f"features.operators.openshift.io/{name}": "true|false" for name in FEATURES},
    }
    for key, pattern in patterns.items():
        yield from _text(csv, "metadata", part, key, pattern=pattern)
    images = [container["image"] for _, container in package.containers]
    if csv.get("metadata", part, "containerImage") not in images:
        yield csv.wrong("metadata", part, "containerImage", what="is not the image of a container")


@rule
def examples(package: Package) -> Iterator[str]:
    """Find kinds without an example, unless consoles are told to hide them.

    https://sdk.operatorframework.io/docs/testing-operators/scorecard/ ("CRDs have validation")
    """
    told = package.csv.get("metadata", "annotations") or {}
    kinds = {example.get("kind") for example in json.loads(told.get("alm-examples", "[]"))}
    hidden = told.get("operators.operatorframework.io/internal-objects", "")
    for owned in package.csv.get("spec", "customresourcedefinitions", "owned") or []:
        if owned["kind"] not in kinds and f'"{owned["name"]}"' not in hidden:
            what = f"has no {owned['kind']}; PROJECT lists its samples"
            yield package.csv.wrong("metadata", "annotations", "alm-examples", what=what)


@rule
def resources(package: Package) -> Iterator[str]:
    """Find containers without requests for CPU or memory.

    https://sdk.operatorframework.io/docs/best-practices/managing-resources/
    """
    for where, container in package.containers:
        for name in ("cpu", "memory"):
            if not container.get("resources", {}).get("requests", {}).get(name):
                yield package.csv.wrong(*where, "resources", "requests", name, what="is missing")


@rule
def permissions(package: Package) -> Iterator[str]:
    """Find excessive rights.

    https://sdk.operatorframework.io/docs/best-practices/common-recommendation/
    """
    for scope in ("permissions", "clusterPermissions"):
        for where, grant in package.rules(scope):
            words = (*grant.get("apiGroups", ()), *grant.get("resources", ()), *grant["verbs"])
            if "*" in words and not PROJECT.adopted:  # whose author wrote the role; `adopt` says it
                yield package.csv.wrong(*where, what="has a *; name each")
            if "leases" in grant.get("resources", []) and scope == "clusterPermissions":
                yield package.csv.wrong(*where, what="the Lease is in the operator's own namespace")


@rule
def related_images(package: Package) -> Iterator[str]:
    """Find images without a digest in a release, which a mirror of the catalog could not pin.

    https://olm.operatorframework.io/docs/reference/file-based-catalogs/ (relatedImages)
    """
    csv = package.csv
    for i, image in enumerate(csv.get("spec", "relatedImages") or []):
        name = image.get("image") or ""
        if package.released and not DIGEST.search(name):
            what = f"{name} has no digest; a release names its images by @sha256:…"
            yield csv.wrong("spec", "relatedImages", i, "image", what=what)
