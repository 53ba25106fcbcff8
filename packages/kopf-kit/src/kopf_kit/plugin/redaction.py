"""Hides in what is collected for support what users wrote, and what looks like a secret.

A text in an object's spec stays only if the operator's own schema says what it may be, by an enum,
a pattern or a format: `Kind.shown`. Every other one is hidden, there and wherever something quotes
it. So a field that is new or unknown is hidden, too.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from kopf_kit.plugin import subject
from kopf_kit.plugin.subject import Kind

Object = dict[str, Any]

#: What stands in the place of what is hidden.
HIDDEN = "<hidden>"
#: Texts with fewer characters than this are hidden where they are a field of their own, but not
#: where something quotes them: they cannot be told from other words.
_QUOTED = 6
#: What may repeat a whole object.
_COPIES = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
#: Variables that the chart and OLM set; others are an administrator's and may hold a password.
_VARIABLES = ("POD_", "OPERATOR_CONDITION_NAME", "WATCH_NAMESPACE")
#: The domains of annotations that programs write; what users write in others is hidden.
_DOMAINS = ("kubernetes.io", "k8s.io", "helm.sh", "operatorframework.io")
#: Fields with names, which are told: no text is looked for in them.
_NAMES = ("apiVersion", "kind", "name", "namespace", "uid", "labels", "ownerReferences")
#: The fields of a ConfigMap with users' data.
_DATA = ("data", "binaryData", "stringData")
#: A login in a URL, a bearer token, a JSON Web Token, a private key.
_SECRETS = re.compile(
    r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)|(?<=bearer )[\w.~+/-]+=*|(?<![\w-])eyJ[\w-]+\.[\w.-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(-----END [A-Z ]*-----)?",
    re.IGNORECASE,
)


class Redaction:
    """Hides the texts in the specs of these objects."""

    def __init__(self, objects: list[tuple[Kind, list[Object]]]) -> None:
        #: All texts by their beginning, as they are and as JSON and Go quote them.
        self._texts: dict[str, set[str]] = defaultdict(set)
        metas = [manifest["metadata"] for _, of_kind in objects for manifest in of_kind]
        names = {meta.get(part) for meta in metas for part in ("name", "namespace")}
        for kind, of_kind in objects:
            for manifest in of_kind:
                for text in {*_free(manifest.get("spec"), kind.shown)} - names:
                    self._hide(text)

    def _hide(self, text: str) -> None:
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            if len(form) >= _QUOTED:
                self._texts[form[:_QUOTED]].add(form)

    def json(self, value: object) -> str:
        """Return objects as JSON, without what users wrote."""
        return json.dumps(self._of(value), indent=2, ensure_ascii=False) + "\n"

    def own(self, kind: Kind, objects: list[Object]) -> str:
        """Return objects of a kind of the operator's as JSON, without what users wrote."""
        return self.json(
            [{**item, "spec": _cleared(item.get("spec"), kind.shown)} for item in objects]
        )

    def text(self, text: str) -> str:
        """Return a text in which each text of a user's, or its beginning, is hidden."""
        text = _SECRETS.sub(HIDDEN, text)
        if not self._texts:
            return text
        done, at = [], 0
        while at < len(text):
            begun = self._texts.get(text[at : at + _QUOTED])
            if begun:
                done.append(HIDDEN)
                at += max(_common(text, at, form) for form in begun)
            else:
                done.append(text[at])
                at += 1
        return "".join(done)

    def _of(self, value: object) -> object:
        if isinstance(value, dict):
            parts = {key: part for key, part in value.items() if key not in _COPIES}
            if isinstance(value.get("metadata"), dict):  # it may be a ConfigMap
                parts.update({key: _cleared(parts[key], {}) for key in _DATA if key in parts})
            return {key: self._field(key, part) for key, part in parts.items()}
        if isinstance(value, list):
            return [self._of(part) for part in value]
        return self.text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: object) -> object:
        if key in _NAMES:
            return value
        if key == "env" and isinstance(value, list):
            return [self._variable(variable) for variable in value]
        if key == "annotations" and isinstance(value, dict):
            return {
                name: self._of(text) if _is_a_programs(name) else HIDDEN
                for name, text in value.items()
                if name not in _COPIES
            }
        return self._of(value)

    def _variable(self, variable: Object) -> object:
        ours = (subject.current().variables, *_VARIABLES)
        if "value" not in variable or str(variable.get("name")).startswith(ours):
            return self._of(variable)
        return {**variable, "value": HIDDEN}


def _is_a_programs(annotation: str) -> bool:
    domain = annotation.rpartition("/")[0]
    ours = {kind.resource.partition(".")[2] for kind in subject.current().kinds}
    return domain in ours or any(f".{domain}".endswith(f".{suffix}") for suffix in _DOMAINS)


def _within(shown: Any, key: str) -> Any:
    """Return what is shown of a field, or of each value of a map."""
    return shown.get(key, shown.get("*", {})) if isinstance(shown, dict) else {}


def _cleared(value: Any, shown: Any) -> Any:
    """Return a value without the texts that are not shown."""
    if isinstance(value, dict):
        return {key: _cleared(part, _within(shown, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_cleared(part, shown) for part in value]
    return HIDDEN if isinstance(value, str) and shown is not True else value


def _free(value: Any, shown: Any) -> Iterator[str]:
    """Yield the texts that are not shown."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _free(part, _within(shown, key))
    elif isinstance(value, list):
        for part in value:
            yield from _free(part, shown)
    elif isinstance(value, str) and shown is not True:
        yield value


def _common(text: str, at: int, form: str) -> int:
    """Return how many characters of a form stand at a place of a text."""
    end = _QUOTED
    while end < len(form) and text[at + end : at + end + 1] == form[end]:
        end += 1
    return end
