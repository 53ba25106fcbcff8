"""The rules of the hubs' pipelines for a submitted folder operators/<name>/."""

from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from kopf_kit.pack import documents
from kopf_kit.pack.rules.package import Document
from kopf_kit.rig.run import HackError

Rule = Callable[[Path], Iterator[str]]
RULES: dict[str, Rule] = {}


def _rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


def _read(file: Path, operator: Path) -> Document:
    name = file.relative_to(operator.parents[2]).as_posix()
    try:
        content = documents.load(file.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise HackError(f"{name}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise HackError(f"{name}: is not an object")
    return Document(name, content)


def _ci(operator: Path) -> Document:
    return _read(operator / "ci.yaml", operator)


def _versions(operator: Path) -> list[Path]:
    """Return the folders of versions, which contain manifests."""
    return sorted(folder.parent for folder in operator.glob("*/manifests"))


@_rule
def check_operator_version_directory_name(operator: Path) -> Iterator[str]:
    """Find a folder whose name is not the version in it."""
    for folder in _versions(operator):
        for file in folder.glob("manifests/*.clusterserviceversion.yaml"):
            csv = _read(file, operator)
            if csv.get("spec", "version") != folder.name:
                what = f"{csv.get('spec', 'version')} is in the folder {folder.name}"
                yield csv.wrong("spec", "version", what=what)


@_rule
def check_schema_operator_ci_config(operator: Path) -> Iterator[str]:
    """Find fields of ci.yaml that are missing or have the wrong type."""
    ci = _ci(operator)
    if ci.get("fbc") is None:
        return
    if ci.get("fbc", "enabled") is not True:
        yield ci.wrong("fbc", "enabled", what="must be true")
    mapping = ci.get("fbc", "catalog_mapping")
    if not mapping:
        yield ci.wrong("fbc", "catalog_mapping", what="is missing")
    for i, entry in enumerate(mapping or []):
        where = ("fbc", "catalog_mapping", i)
        if entry.get("type") not in {"olm.template.basic", "olm.semver"}:
            yield ci.wrong(*where, "type", what=f"{entry.get('type')} is not a template's")
        if not entry.get("catalog_names"):
            yield ci.wrong(*where, "catalog_names", what="is missing")


@_rule
def check_catalog_usage_ci_config(operator: Path) -> Iterator[str]:
    """Find a catalog that is generated from two templates."""
    ci = _ci(operator)
    seen = set[str]()
    for i, entry in enumerate(ci.get("fbc", "catalog_mapping") or []):
        for name in entry.get("catalog_names") or []:
            if name in seen:
                what = f"{name} is made of another template already"
                yield ci.wrong("fbc", "catalog_mapping", i, "catalog_names", what=what)
            seen.add(name)


@_rule
def check_ci_upgrade_graph(operator: Path) -> Iterator[str]:
    """Find an upgrade mode that the pipeline does not know, or that it ignores beside fbc.

    https://redhat-openshift-ecosystem.github.io/operator-pipelines/users/operator-ci-yaml/#operator-versioning
    """
    ci = _ci(operator)
    if ci.get("fbc") is not None:
        if ci.get("updateGraph") is not None:
            yield ci.wrong("updateGraph", what="has no effect beside fbc")
    elif ci.get("updateGraph") not in {"replaces-mode", "semver-mode"}:
        what = f"{ci.get('updateGraph')} is neither replaces-mode nor semver-mode"
        yield ci.wrong("updateGraph", what=what)


@_rule
def check_schema_bundle_release_config(operator: Path) -> Iterator[str]:
    """Find fields of release-config.yaml that are missing or unknown."""
    templates = {x.get("template_name") for x in _ci(operator).get("fbc", "catalog_mapping") or []}
    for folder in _versions(operator) if _ci(operator).get("fbc") is not None else ():
        config = _read(folder / "release-config.yaml", operator)
        entries = config.get("catalog_templates")
        if not entries:
            yield config.wrong("catalog_templates", what="is missing")
        for i, entry in enumerate(entries or []):
            where = ("catalog_templates", i)
            if entry.get("template_name") not in templates:
                what = f"{entry.get('template_name')} is not in ci.yaml"
                yield config.wrong(*where, "template_name", what=what)
            if not entry.get("channels"):
                yield config.wrong(*where, "channels", what="is missing")
            fields = {
                "template_name",
                "channels",
                "defaultChannel",
                "replaces",
                "skips",
                "skipRange",
            }
            for key in sorted(set(entry) - fields):
                yield config.wrong(*where, key, what="is unknown")


def problems(operator: Path) -> Iterator[str]:
    """Yield a sentence for each mistake in the folder."""
    for name, rule in RULES.items():
        try:
            for sentence in rule(operator):
                yield f"{sentence} ({name})"
        except HackError as error:
            yield f"{error} ({name})"
