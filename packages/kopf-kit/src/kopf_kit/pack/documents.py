"""Reads and writes YAML with the types that kubectl reads, and writes JSON for people.

YAML has several versions, and its readers differ: `08`, `1:30`, `y` and `2026-11-29` are texts for
one and numbers, booleans or dates for another. What a cluster gets is what kubectl and Helm read
(sigs.k8s.io/yaml, on go.yaml.in/yaml/v2), so the kit reads the same. What it writes reads the same
everywhere: a text that any reader would take for something else is quoted.
"""

import importlib.metadata
import json
import re
import sys
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Any

import yaml

from kopf_kit.rig import paths

_WIDTH = 100
#: Longest list or values of an object, as Python writes them, that are written on one line.
_SHORT = 70
#: JSON is read by programs: most values of a schema, or fields of a kind, are then one line each.
_JSON_WIDTH = 600


_TAG = "tag:yaml.org,2002:"
_TRUE = ("y", "yes", "true", "on")
_WORDS = {
    **{
        form: value
        for value, words in (
            (True, ("y", "yes", "true", "on")),
            (False, ("n", "no", "false", "off")),
        )
        for word in words
        for form in (word, word.capitalize(), word.upper())
    },
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Where no underscore may be; in a number that begins with a digit, it may be anywhere.
_STRAY = re.compile(r"_(?![0-9])|(?<![0-9])_")
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
#: Line breaks of YAML 1.1, which a reader may turn into others unless they are escaped.
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
_OCTAL = re.compile(r"^([-+]?)0(?=[0-7])")


def plain(text: str) -> Any:
    """Return what kubectl takes an unquoted text for; raise ValueError for what JSON cannot say."""
    value = _resolved(text)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(Decimal(repr(value)))  # JSON, as Go writes it, has no .0: it is an integer there
    return value


def _resolved(text: str) -> Any:
    """Return what Go's reader of YAML makes of an unquoted text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INFINITE.fullmatch(text):
        raise ValueError(f"{text} is no number of JSON")
    if text[0] not in "+-.0123456789" or (text[0] == "." and _STRAY.search(text)):
        return text
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        number = int(_OCTAL.sub(r"\g<1>0o", digits), 0)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(digits) and abs(value := float(digits)) != float("inf"):
        return value
    return text


class _Loader(yaml.CSafeLoader):
    """Reads what libyaml parses, which takes a tenth of the time of PyYAML's own parser."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if not implicit[0]:
            return f"{_TAG}str"
        return f"{_TAG}merge" if value == "<<" else f"{_TAG}plain"

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return an object whose keys are texts, as JSON's are."""
        self.flatten_mapping(node)
        return {
            self._key(key): self.construct_object(value, deep=deep) for key, value in node.value
        }

    def _key(self, node: yaml.Node) -> str:
        is_plain = node.tag == f"{_TAG}plain"
        key = _resolved(node.value) if is_plain else self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(key)
        raise yaml.constructor.ConstructorError(
            None, None, f"a key must be a text, not {key!r}: quote it", node.start_mark
        )

    def construct_plain(self, node: yaml.ScalarNode) -> Any:
        try:
            return plain(node.value)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"{error}: quote it", node.start_mark
            ) from None


for _name in ("plain", "bool", "int", "float", "null"):
    _Loader.add_constructor(_TAG + _name, _Loader.construct_plain)
for _name in ("merge", "timestamp"):
    _Loader.add_constructor(_TAG + _name, lambda _, node: node.value)


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        """Return what an unquoted text would be taken for, by readers of YAML 1.1 or by kubectl."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if kind is not yaml.ScalarNode or tag != f"{_TAG}str" or not implicit[0]:
            return tag
        return f"{_TAG}plain" if _INFINITE.fullmatch(value) or plain(value) != value else tag


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, _is_short(items))


def _object(dumper: yaml.SafeDumper, fields: dict[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", fields, _is_short(fields.values()))


def _is_short(values: Iterable[Any]) -> bool:
    """Return whether values fit on a line: those of a rule do, a Pod's arguments do not."""
    values = list(values)
    nested = any(isinstance(value, list | dict) or "\n" in str(value) for value in values)
    return not nested and len(str(values)) < _SHORT


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(dict, _object)


def load(text: str | bytes) -> Any:
    """Return the one document of a text; raise yaml.YAMLError."""
    return yaml.load(text, _Loader)  # noqa: S506 (a safe one)


def load_all(text: str | bytes) -> list[Any]:
    """Return the documents of a text that are not empty; raise yaml.YAMLError."""
    return [each for each in yaml.load_all(text, _Loader) if each is not None]


def header(by: str) -> str:
    """Return the line that says what generates a file."""
    return f"# Generated by {by}: do not edit, `kopf-kit generate`\n"


def text(*documents: Any) -> str:
    """Return documents as YAML."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )


def scalar(text: str) -> str:
    """Return a text as YAML on one line."""
    line = yaml.dump(text, Dumper=_Dumper, allow_unicode=True, width=sys.maxsize)
    return str(line).removesuffix("\n").removesuffix("\n...")


def literal(text: str) -> str:
    """Return a text escaped so that Helm renders it unchanged."""
    return text.replace("{{", '{{ "{{" }}')


def dump(*documents: Any, by: str) -> str:
    """Return documents as YAML, with the header of generated files."""
    return header(by) + text(*documents)


def as_json(value: Any, left: int = 0, key: str = "") -> str:
    """Return a value as JSON; each part that fits is on one line.

    `left` is the indentation of the line that the value begins on, and `key` is before it there.
    """
    line = json.dumps(value, ensure_ascii=False)
    if left + len(key) + len(line) < _JSON_WIDTH or not isinstance(value, dict | list) or not value:
        return key + line
    if isinstance(value, dict):
        parts = [as_json(part, left + 2, f"{json.dumps(name)}: ") for name, part in value.items()]
    else:
        parts = [as_json(part, left + 2) for part in value]
    inner = ",\n".join(" " * (left + 2) + part for part in parts)
    return f"{key}{line[0]}\n{inner}\n{' ' * left}{line[-1]}"


def licence() -> str:
    """Return the kit's licence, which all that it writes is under."""
    packed = importlib.metadata.distribution("kopf-kit").read_text("licenses/LICENSE")
    return packed or (paths.KIT.parents[1] / "LICENSE").read_text()  # of a checkout
