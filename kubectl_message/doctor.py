"""What `kubectl message doctor` says of the Messages; `diagnosis` checks the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kopf_kit.kubectl import objects
from kopf_kit.kubectl.findings import WAITS, WELL, Finding
from kopf_kit.kubectl.objects import age
from kopf_kit.kubectl.text import Text
from kubectl_message.messages import state


def fare(_: object, messages: list[dict[str, Any]]) -> Finding:
    """Say how all Messages fare."""
    states = [state(message) for message in messages]
    waiting = [
        state for state in states if not state.phase and (age(state.since) or 0) > objects.PROMPT
    ]
    if waiting:
        return objects.unseen([f"{state.namespace}/{state.name}" for state in waiting])
    counts = Counter(state.phase or "Pending" for state in states)
    says = Text(
        "{all}: {p} print, {w} wait, {f} fail", "{all}개: 출력 {p}, 대기 {w}, 실패 {f}"
    ).format(all=len(states), p=counts["Processed"], w=counts["Pending"], f=counts["Failed"])
    if not counts["Failed"]:
        return Finding(WELL, says)
    todo = Text(
        "`kubectl message status -A` lists them, `kubectl message why NAME` says what to do.",
        "`kubectl message status -A`로 목록을 보고 `kubectl message why NAME`으로 할 일을 "
        "확인하십시오.",
    )
    return Finding(WAITS, says, todo)
