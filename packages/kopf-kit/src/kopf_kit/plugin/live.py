"""`status -w`: follows each change of an operator's objects until Ctrl-C."""

from __future__ import annotations

import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Union

from kopf_kit.plugin.kubectl import Kubectl, KubectlError

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
