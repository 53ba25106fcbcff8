"""What an entry of the knowledge is."""

from __future__ import annotations

from typing import NamedTuple

from kubectl_message.text import Text

HOME = "https://github.com/myorg/message-operator"
FAILED, PENDING = "MessageOperatorMessagesFailed", "MessageOperatorMessagesPending"


class Entry(NamedTuple):
    """What is known of some reasons; {pod}, {name} and {namespace} stand in the sentences."""

    #: Those of the Ready condition that it is about; empty for any that the pattern fits.
    reasons: tuple[str, ...]
    #: Completes "NAME does not print: …".
    says: Text
    todo: Text
    #: What the condition's message has in it; empty where the reason alone tells.
    pattern: str = ""
    #: The alert whose runbook tells more.
    runbook: str = FAILED


def again(en: str, ko: str) -> Text:
    """Return what to do about something that the operator tries again."""
    return Text(
        f"{en} The operator tries again by itself.",
        f"{ko} 오퍼레이터가 자동으로 다시 시도합니다.",
    )


def url(alert: str, version: str) -> str:
    """Return where an alert's runbook is."""
    return f"{HOME}/blob/v{version}/docs/runbooks/{alert}.md"
