"""The site's reference pages that are made of what the code declares."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.pack.project import PROJECT
from hack.rig import paths

_MAKEFILE = paths.CHECKOUT / "Makefile"
_CRDS = paths.CHECKOUT / "deploy" / "crds.yaml"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    """Return a text that is no Markdown, so that `<name>` is not taken for HTML."""
    return text.replace("<", "&lt;")


def _table(*head: str) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


# --- The kind -------------------------------------------------------------------------------------


def message_api() -> str:
    """Return the page of the kinds' fields, from their CustomResourceDefinitions."""
    return "\n".join(_kinds()) + "\n"


def _kinds() -> Iterator[str]:
    yield "# The Message API"
    yield ""
    yield "This page is generated from the CustomResourceDefinition in `deploy/crds.yaml`."
    definitions = (d for d in yaml.safe_load_all(_CRDS.read_text()) if d)
    for definition in definitions:
        if definition["kind"] != "CustomResourceDefinition":
            continue
        spec = definition["spec"]
        names = [spec["names"]["plural"], *spec["names"].get("shortNames", [])]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield f"\n## {spec['names']['kind']}, `{spec['group']}/{version['name']}`\n"
            yield _prose(schema["description"])
            yield ""
            yield f"`kubectl get` knows it as {', '.join(f'`{name}`' for name in names)}."
            for part in ("spec", "status"):
                yield f"\n### {part}"
                yield from _table("field", "type", "default", "allowed", "meaning")
                yield from _fields(schema["properties"][part], part)


def _fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        default = f"`{field['default']}`" if "default" in field else ""
        meaning = _prose(field.get("description", ""))
        yield _row(f"`{where}`", _type(field), default, _bounds(field), meaning)
        yield from _fields(field, where)
        yield from _fields(field.get("items", {}), f"{where}[]")


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}s"
    return str(field["type"])


def _bounds(field: dict[str, Any]) -> str:
    words = {
        "minimum": "at least {}", "maximum": "at most {}", "minLength": "at least {} characters",
        "maxLength": "at most {} characters", "maxItems": "at most {} entries",
    }  # fmt: skip
    bounds = [text.format(field[key]) for key, text in words.items() if key in field]
    bounds += [" or ".join(f"`{value}`" for value in field.get("enum", []))]
    bounds += [rule["message"] for rule in field.get("x-kubernetes-validations", [])]
    return ", ".join(filter(None, bounds))


# --- The operator's program -----------------------------------------------------------------------


def flags() -> str:
    """Return the page of the operator's flags and environment variables."""
    return "\n".join(_flags()) + "\n"


def _flags() -> Iterator[str]:
    settings = PROJECT.module(f"{PROJECT.package}.settings")
    yield "# Flags and environment variables"
    yield ""
    yield (
        "Each flag of the operator has an environment variable. A flag wins over its variable. The "
        "chart sets them from its [values](../charts/message-operator/README.md). This page is "
        "generated from the code."
    )
    yield from _table("flag", "variable", "default", "meaning")
    yield _row(
        "`--namespace`, `-n`", "`WATCH_NAMESPACE`: a list with commas", "",
        "watch this namespace; may be repeated",
    )  # fmt: skip
    yield _row("`--all-namespaces`, `-A`", "", "", "watch all namespaces; this is the default")
    for field in dataclasses.fields(settings.Settings):
        if about := field.metadata:
            yield _row(
                f"`--{field.name.replace('_', '-')} {about['metavar']}`",
                f"`{PROJECT.variables}{field.name.upper()}`",
                f"`{about['default']}`" if about["default"] else "",
                about["meaning"],
            )


# --- The Makefile ---------------------------------------------------------------------------------


def make() -> str:
    """Return the page of the Makefile's targets and variables."""
    return "\n".join(_make()) + "\n"


def _make() -> Iterator[str]:
    text = _MAKEFILE.read_text()
    yield "# Make targets"
    yield ""
    yield "`make` alone prints the same list. This page is generated from the Makefile."
    for heading, target, meaning in re.findall(
        r"^##@ (.+)$|^([a-z0-9-]+):.*?## (.+)$", text, re.MULTILINE
    ):
        if heading:
            yield f"\n## {heading}"
            yield from _table("command", "what it does")
        else:
            yield _row(f"`make {target}`", meaning)


#: The generated pages, each with the file that somebody edits to change it.
PAGES: dict[str, tuple[Callable[[], str], Path]] = {
    "reference/message-api.md": (message_api, PROJECT.code / "messages.py"),
    "reference/flags.md": (flags, PROJECT.code / "settings.py"),
    "reference/make.md": (make, _MAKEFILE),
}
