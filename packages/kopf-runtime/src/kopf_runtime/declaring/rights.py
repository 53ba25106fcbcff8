"""Rights that an operator needs beside those that follow from its declaration."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[a-z0-9][-a-z0-9./]*")
#: Requests that carry no name, so that a rule with names never allows them.
_NAMELESS = {"create", "deletecollection"}


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """The `verbs` on `resources` of an API `group` (empty: the core API).

    With `resource_names`, only on the objects of these names. `why` is the reason that the
    generated roles give. Raise `TypeError` or `ValueError` if the rule cannot be meant.
    """

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    resource_names: Sequence[str] = ()
    why: str = ""

    def __post_init__(self) -> None:
        """Refuse what no role could grant, or would grant without anybody's having meant it."""
        for field in ("resources", "verbs", "resource_names"):
            words = getattr(self, field)
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise TypeError(f"{field}={words!r}: use a sequence of texts, such as ('nodes',)")
            if not words and field != "resource_names":
                raise ValueError(f"the rule has no {field}; name at least one")
            for word in words:
                if not _WORD.fullmatch(word):
                    raise ValueError(
                        f"{word!r} of {field} is not valid: write it as `kubectl api-resources "
                        "-o wide` does, in lower case and without *"
                    )
        if self.resource_names and (lost := sorted(_NAMELESS.intersection(self.verbs))):
            raise ValueError(
                f"{', '.join(lost)} cannot be restricted to names; declare a rule without them"
            )
