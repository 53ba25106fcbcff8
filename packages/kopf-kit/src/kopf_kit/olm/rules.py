"""The rules for what an author writes into bundle and catalog, and OLM's own programs.

What OLM's validators (`findings`), the hubs (test_hubs.py) or kube-score say is not repeated.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.olm import catalog
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import reading, tools
from kopf_kit.rig.run import KitError, output

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Document:
    """A document of a YAML file."""

    file: str
    content: Manifest

    def get(self, *keys: str | int) -> Any:
        """Return the value of a field, or None if it is missing."""
        value: Any = self.content
        for key in keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def wrong(self, *keys: str | int, what: str) -> str:
        """Return a sentence about a wrong field."""
        field = "".join(map(_step, keys)).removeprefix(".")
        return f"{self.file}: {field + ': ' if field else ''}{what}"


def _step(key: str | int) -> str:
    """Return a key in the form in which it follows a field."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _documents(folder: Path, pattern: str) -> list[Document]:
    """Read the YAML files of a folder; raise KitError, with the sentence, if that fails."""
    found = []
    for file in sorted(folder.glob(pattern)):
        if not file.is_file() or file.suffix not in {".yaml", ".yml", ".json"}:
            continue
        name = file.relative_to(folder.parent).as_posix()
        for content in reading.load_all(reading.text(file), name):
            if not isinstance(content, dict):
                raise KitError(f"{name}: holds a document that is not an object, but {content!r}")
            found.append(Document(name, content))
    return found


class Package:
    """A bundle and the catalog that contains it, in two folders."""

    def __init__(self, bundle: Path, catalog: Path, released: bool = False) -> None:
        self.bundle, self.catalog = bundle, catalog
        #: Whether the bundle is submitted, so it must name its images by digest.
        self.released = released
        self.manifests = _documents(bundle, "manifests/*")
        self.csv = self._only("ClusterServiceVersion")
        self.blobs = _documents(catalog, "**/*")

    def _only(self, kind: str) -> Document:
        documents = self._of_kind(kind)
        if len(documents) != 1:
            raise KitError(
                f"{self.bundle.name}/manifests: kind: {len(documents)} of {kind}, not one"
            )
        return documents[0]

    def _of_kind(self, kind: str) -> list[Document]:
        documents = [document for document in self.manifests if document.get("kind") == kind]
        if not documents:
            raise KitError(f"{self.bundle.name}/manifests: kind: there is no {kind}")
        return documents

    def of(self, schema: str) -> list[Document]:
        """Return the catalog's blobs of a schema."""
        return [blob for blob in self.blobs if blob.get("schema") == schema]

    @functools.cached_property
    def containers(self) -> list[tuple[tuple[str | int, ...], Manifest]]:
        """Return all containers that OLM starts, each with its field."""
        return [
            ((*where, "spec", "template", "spec", "containers", number), container)
            for where, deployment in self.deployments
            for number, container in enumerate(deployment["spec"]["template"]["spec"]["containers"])
        ]

    @property
    def deployments(self) -> list[tuple[tuple[str | int, ...], Manifest]]:
        """Return all Deployments, each with its field."""
        where = ("spec", "install", "spec", "deployments")
        return [
            ((*where, i), deployment) for i, deployment in enumerate(self.csv.get(*where) or [])
        ]

    def rules(self, scope: str) -> list[tuple[tuple[str | int, ...], Manifest]]:
        """Return the rules of `permissions` or `clusterPermissions`, each with its field."""
        where = ("spec", "install", "spec", scope)
        return [
            ((*where, i, "rules", j), rule)
            for i, account in enumerate(self.csv.get(*where) or [])
            for j, rule in enumerate(account["rules"])
        ]


Rule = Callable[[Package], Iterator[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Add a rule to RULES."""
    RULES[function.__name__] = function
    return function


#: https://docs.redhat.com/en/documentation/openshift_container_platform/4.16/html/operators/developing-operators#osdk-csv-annotations-infra_osdk-generating-csvs
FEATURES = (
    *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
    *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
)

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


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
def permissions(package: Package) -> Iterator[str]:
    """Find excessive rights.

    https://sdk.operatorframework.io/docs/best-practices/common-recommendation/
    """
    for scope in ("permissions", "clusterPermissions"):
        for where, grant in package.rules(scope):
            words = (*grant.get("apiGroups", ()), *grant.get("resources", ()), *grant["verbs"])
            if "*" in words and not PROJECT.adopted:  # whose author wrote the role; `adopt` says it
                yield package.csv.wrong(*where, what="has a *; name each")


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
