"""The state of all objects of a kind, for `doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kopf_kit.plugin import subject
from kopf_kit.plugin.findings import FAILS, WAITS, WELL, Finding
from kopf_kit.plugin.objects import age, state
from kopf_kit.plugin.subject import Kind
from kopf_kit.plugin.text import Text

Object = dict[str, Any]
#: Returns the state of all objects of a kind, in all namespaces.
Judge = Callable[[Kind, list[Object]], Finding]

#: Seconds within which a healthy operator has looked at an object.
PROMPT = 60.0


def fare(kind: Kind, objects: list[Object]) -> Finding:
    """Return the state of all objects of a kind, by their Ready conditions."""
    states = [state(kind, manifest) for manifest in objects]
    tells = subject.current().tells
    waiting = [state for state in states if not state.ready and (age(state.since) or 0) > PROMPT]
    if waiting and tells:
        return unseen([f"{state.namespace}/{state.name}".lstrip("/") for state in waiting])
    ready = sum(state.ready == "True" for state in states)
    if not (tells or any(state.ready for state in states)):
        return Finding(WELL, Text.of(len(states)))
    says = Text("{all}: {n} ready", "{all}개: 준비됨 {n}").format(all=len(states), n=ready)
    if ready == len(states):
        return Finding(WELL, says)
    todo = Text(
        "`kubectl {command} status -A` lists them, `kubectl {command} why {kind}/NAME` says why.",
        "`kubectl {command} status -A`로 목록을 보고 `kubectl {command} why {kind}/NAME`으로 "
        "이유를 확인하십시오.",
    )
    words = {"command": subject.current().command, "kind": kind.kind.lower()}
    return Finding(WAITS, says, todo.format(**words))


def unseen(names: list[str]) -> Finding:
    """Return the finding about objects that no operator has looked at."""
    says = Text("{n} were not looked at: {it}", "{n}개를 확인하지 않음: {it}")
    says = says.format(n=len(names), it=", ".join(names[:3]))
    return Finding(FAILS, says, runbook=subject.current().alert("QueueStuck"))
