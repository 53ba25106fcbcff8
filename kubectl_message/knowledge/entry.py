"""The type of the knowledge's entries."""

from __future__ import annotations

from typing import NamedTuple

from kopf_kit.kubectl.text import Text

HOME = "https://github.com/myorg/message-operator"
FAILED, PENDING = "MessageOperatorMessagesFailed", "MessageOperatorMessagesPending"


class Entry(NamedTuple):
    """An entry for some reasons; its sentences may contain {pod}, {name} and {namespace}."""

    #: The Ready condition's reasons that it explains; empty for any whose message matches.
    reasons: tuple[str, ...]
    #: Completes "NAME does not print: …".
    says: Text
    todo: Text
    #: A pattern for the condition's message; empty if the reason alone decides.
    pattern: str = ""
    #: The alert whose runbook has more details.
    runbook: str = FAILED


def again(en: str, ko: str) -> Text:
    """Return what to do about a request that the operator retries."""
    return Text(
        f"{en} The operator tries again by itself.",
        f"{ko} 오퍼레이터가 자동으로 다시 시도합니다.",
    )
