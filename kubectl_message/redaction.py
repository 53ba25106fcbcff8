"""Hides in what is collected for support what users wrote: texts of Messages, and variables."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from kubectl_message.operators import PREFIX

Object = dict[str, Any]

#: What stands in the place of what is hidden.
HIDDEN = "<hidden>"
#: Texts with fewer characters than this are hidden where they are a field of their own, but not
#: where something quotes them: they cannot be told from other words.
_QUOTED = 6
#: What may repeat a whole object.
_COPIES = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
#: Variables that the chart and OLM set; others are an administrator's and may hold a password.
_VARIABLES = (PREFIX, "POD_", "OPERATOR_CONDITION_NAME", "WATCH_NAMESPACE")


class Redaction:
    """Hides the texts of these Messages."""

    def __init__(self, messages: list[Object]) -> None:
        #: All texts by their beginning, as they are and as JSON and Go quote them.
        self._texts: dict[str, set[str]] = defaultdict(set)
        for message in messages:
            text = str((message.get("spec") or {}).get("text") or "")
            for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
                if len(form) >= _QUOTED:
                    self._texts[form[:_QUOTED]].add(form)

    def json(self, value: object) -> str:
        """Return objects as JSON, without what users wrote."""
        return json.dumps(self._of(value), indent=2, ensure_ascii=False) + "\n"

    def text(self, text: str) -> str:
        """Return a text in which each text of a Message is hidden, also its beginning alone."""
        done, at = [], 0
        while at < len(text):
            begun = self._texts.get(text[at : at + _QUOTED]) if self._texts else None
            if begun:
                done.append(HIDDEN)
                at += max(_common(text, at, form) for form in begun)
            else:
                done.append(text[at])
                at += 1
        return "".join(done)

    def _of(self, value: object) -> object:
        if isinstance(value, dict):
            return {key: self._field(key, one) for key, one in value.items() if key not in _COPIES}
        if isinstance(value, list):
            return [self._of(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: object) -> object:
        if key == "text":
            return HIDDEN
        if key == "env" and isinstance(value, list):
            return [self._variable(one) for one in value]
        return self._of(value)

    def _variable(self, variable: Object) -> object:
        if "value" not in variable or str(variable.get("name")).startswith(_VARIABLES):
            return self._of(variable)
        return {**variable, "value": HIDDEN}


def _common(text: str, at: int, form: str) -> int:
    """Return how many characters of a form stand at a place of a text."""
    end = _QUOTED
    while end < len(form) and text[at + end : at + end + 1] == form[end]:
        end += 1
    return end
