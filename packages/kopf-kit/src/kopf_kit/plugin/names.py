"""Which texts are valid names in Kubernetes: no other reaches kubectl or a printed command.

Everything that is read from a cluster may have been written by a tenant: a flag of a Deployment, a
field of a status. What is to become an argument of kubectl, or a part of a command that the user is
advised to run, passes one of these first.
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"({_LABEL}(\.{_LABEL})*/)?{_VALUE}"
#: A requirement of a label selector: `key`, `!key`, `key=value`, `key in (a,b)`.
_REQUIREMENT = re.compile(
    rf" *(! *{_KEY}|{_KEY}( *(=|==|!=) *({_VALUE})?"
    rf"| +(in|notin) *\( *({_VALUE})?( *, *({_VALUE})?)* *\))?) *"
)
#: The longest namespace, name, and selector; the last is our own limit.
_NAMESPACE_SIZE, _NAME_SIZE, _SELECTOR_SIZE = 63, 253, 1024


def is_namespace(text: object) -> bool:
    """Return whether it is a name of a namespace, a DNS-1123 label."""
    return _is(text, _NAMESPACE, _NAMESPACE_SIZE)


def is_name(text: object) -> bool:
    """Return whether it is a name of an object, a DNS-1123 subdomain."""
    return _is(text, _NAME, _NAME_SIZE)


def is_selector(text: object) -> bool:
    """Return whether it is a label selector."""
    if not isinstance(text, str) or len(text) > _SELECTOR_SIZE:
        return False
    return all(_REQUIREMENT.fullmatch(part) for part in re.split(r",(?![^(]*\))", text))


def _is(text: object, pattern: re.Pattern[str], size: int) -> bool:
    return isinstance(text, str) and len(text) <= size and bool(pattern.fullmatch(text))
