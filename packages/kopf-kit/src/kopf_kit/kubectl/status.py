"""`kubectl NAME status`: shows the objects of an operator at a glance, once or with each change."""

from __future__ import annotations

import json
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Union

from kopf_kit.kubectl import advice, subject
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.objects import NOT_SEEN, State, age, state
from kopf_kit.kubectl.text import Cell, Text, ago, escaped, paint, printable, table

Object = dict[str, Any]
#: A resource, and the news of it: an event, a new watch, or why it cannot be watched.
News = tuple[str, Union[Object, KubectlError, None]]
#: The states by resource, namespace and name. A state has a `namespace`, a `name` and `deleting`.
States = dict[tuple[str, str, str], Any]

#: Seconds between two updates of the live table, and between two watches.
TICK, PAUSE = 1.0, 1.0
#: Escape codes: cursor home, and clear everything below.
_CLEAR = "\033[H\033[J"


class View(NamedTuple):
    """What is shown of the objects."""

    #: For each resource, what returns the state of an object.
    states: Mapping[str, Callable[[Object], Any]]
    #: Returns the lines of a table of all states.
    picture: Callable[[list[Any]], list[str]]
    #: Returns what one line says of a state.
    words: Callable[[Any], list[str]]


def follow(kubectl: Kubectl, view: View, *, everywhere: bool) -> int:
    """Show the objects until Ctrl-C: on a terminal as a table, otherwise one line per change."""
    news: queue.Queue[News] = queue.Queue()
    for resource in view.states:
        arguments = (kubectl, resource, everywhere, news)
        threading.Thread(target=_watch, args=arguments, daemon=True).start()
    states: States = {}
    terminal = sys.stdout.isatty()
    while True:
        changed = _take(news, states, view)
        if terminal:
            lines = fitting(view.picture([*states.values()]))
            print(_CLEAR + "\n".join(lines), flush=True)
        else:
            for state in changed:
                print(time.strftime("%H:%M:%S"), *view.words(state), sep="  ", flush=True)


def fitting(lines: list[str]) -> list[str]:
    """Return as many lines as fit on the terminal, always with the last two."""
    room = shutil.get_terminal_size().lines - 4
    return lines if len(lines) <= room + 3 else [*lines[:room], "…", *lines[-2:]]


def _watch(kubectl: Kubectl, resource: str, everywhere: bool, news: queue.Queue[News]) -> None:
    """Queue the news of one watch after the other; the API server ends each after a while."""
    try:
        while True:
            news.put((resource, None))
            for event in kubectl.watch(resource, everywhere=everywhere):
                news.put((resource, event))
            time.sleep(PAUSE)
    except KubectlError as error:
        news.put((resource, error))


def _take(news: queue.Queue[News], states: States, view: View) -> list[Any]:
    """Wait for news, take all that are queued, and return the states that changed."""
    changed: list[Any] = []
    deadline = time.monotonic() + TICK
    while (left := deadline - time.monotonic()) > 0:
        try:
            resource, event = news.get(timeout=left)
        except queue.Empty:
            break
        if isinstance(event, KubectlError):
            if not changed:
                raise event
            news.put((resource, event))  # what came before it is shown first
            break
        if event is None:
            for key in [key for key in states if key[0] == resource]:
                del states[key]
            continue
        now = view.states[resource](event["object"])
        key = (resource, now.namespace, now.name)
        former = states.pop(key, None)
        if event["type"] != "DELETED":
            states[key] = now
        if former is None or view.words(former) != view.words(now) or event["type"] == "DELETED":
            changed.append(now._replace(deleting=now.deleting or event["type"] == "DELETED"))
        deadline = min(deadline, time.monotonic() + 0.1)
    return changed


COLORS = {"True": "green", "False": "red"}

NAMESPACE, NAME = Text("NAMESPACE", "네임스페이스"), Text("NAME", "이름")
READY, SINCE, WHY = Text("READY", "준비"), Text("SINCE", "경과"), Text("WHY", "이유")
DELETING = Text("it is being deleted", "삭제되는 중입니다")
NONE_HERE = Text(
    "There are no {many} in the namespace {here}; -A shows all namespaces.",
    "네임스페이스 {here}에 {many} 오브젝트가 없습니다. -A로 모든 네임스페이스를 볼 수 있습니다.",
)
NONE = Text("There are no {many} in the cluster.", "클러스터에 {many} 오브젝트가 없습니다.")
ASK = Text(
    "`kubectl {command} why KIND/NAME` says more about one.",
    "`kubectl {command} why KIND/NAME`으로 더 자세히 볼 수 있습니다.",
)


def show(kubectl: Kubectl, *, everywhere: bool, as_json: bool) -> int:
    """Print all objects of the operator's kinds, those in trouble first; return the exit code."""
    ours = subject.current()
    states = [
        state(kind, manifest)
        for kind in ours.kinds
        for manifest in kubectl.list(kind.resource, everywhere=everywhere)
    ]
    states.sort(key=_order)
    if as_json:
        items = [{**state._asdict(), "kind": state.kind.kind} for state in states]
        print(escaped(json.dumps({"items": items}, ensure_ascii=False, indent=2)))
    elif not states:
        here = "" if everywhere else kubectl.here()
        print((NONE if everywhere else NONE_HERE).format(many=ours.many, here=here))
    else:
        print(*_picture(states, everywhere), sep="\n")
    return 0


def live(kubectl: Kubectl, *, everywhere: bool) -> int:
    """Show all objects of the operator's kinds until Ctrl-C; return the exit code."""
    ours = subject.current()

    def lines(states: list[State]) -> list[str]:
        if not states:
            return [str(NONE.format(many=ours.many))]
        return _picture(sorted(states, key=_order), everywhere)

    states = {kind.resource: partial(state, kind) for kind in ours.kinds}
    return follow(kubectl, View(states, lines, _words), everywhere=everywhere)


def _picture(states: list[State], everywhere: bool) -> list[str]:
    """Return the lines of the table, and how to ask for more below it."""
    heads = [*([NAMESPACE] if everywhere else []), NAME, READY, SINCE, WHY]
    lines = table([str(head) for head in heads], [_row(state, everywhere) for state in states])
    if any(state.ready != "True" for state in states):
        lines += ["", paint(str(ASK.format(command=subject.current().command)), "dim")]
    return lines


def _order(state: State) -> tuple[bool, str, str, str]:
    return state.ready == "True", state.namespace, state.kind.kind, state.name


def _words(state: State) -> list[str]:
    called = "/".join(filter(None, (state.namespace, state.kind.kind.lower(), state.name)))
    return [called, printable(state.ready) or "-", _why(state)]


def _row(state: State, everywhere: bool) -> list[Cell]:
    seconds = age(state.since)
    return [
        *([Cell(state.namespace)] if everywhere else []),
        Cell(f"{state.kind.kind.lower()}/{state.name}"),
        Cell(state.ready or "-", COLORS.get(state.ready, "yellow")),
        Cell("" if seconds is None else ago(seconds)),
        Cell(_why(state)),
    ]


def _why(state: State) -> str:
    if state.deleting:
        return str(DELETING)
    if not state.ready:
        return str(NOT_SEEN) if subject.current().tells else printable(", ".join(state.others))
    if state.ready == "True":
        return ""
    known = advice.find(state.reason, state.message, state.name, state.namespace)
    return printable(f"{state.reason}: {known.says if known else state.message}")
