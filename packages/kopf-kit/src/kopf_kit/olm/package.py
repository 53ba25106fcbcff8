"""The documents of a bundle and a catalog, and the sentences about their mistakes.

The other modules contain the rules.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kopf_kit.rig import reading
from kopf_kit.rig.run import KitError

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
