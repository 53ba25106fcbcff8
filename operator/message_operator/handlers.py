"""The seam with kopf: its settings, and a few thin functions that pass on what it watches.

kopf finds the handlers when this module is imported: by ``__main__``, or by
``kopf run --standalone -m message_operator.handlers``.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import click
import kopf

from message_operator import kube, messages, pods, settings
from message_operator.controller import Controller

#: Set to stop the operator; ``__main__`` hands it to kopf.
stopping = asyncio.Event()
#: Seconds that kopf has to stop by itself; after a signal, and after a failure of its own.
PROMPT, ENDING = 1.5, 5.0
#: What ``__main__`` parsed; under ``kopf run``, what the environment says.
configured: settings.Settings | None = None
controller: Controller


class Unremembered(kopf.DiffBaseStorage, kopf.ProgressStorage):
    """Keeps kopf from copying each object, to find what changed and how far it came: nobody asks.

    That was an eighth of its work with an event.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Find nothing worth comparing."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        """Remember nothing."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """Leave nothing to purge."""

    def touch(self, **_: Any) -> None:
        """Touch nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Clear nothing."""
        return essence


def _from_environment() -> settings.Settings:
    """Make the settings under ``kopf run``, whose own flags say which namespaces are watched."""
    context = click.get_current_context(silent=True)
    parameters = context.params if context else {}
    names = [f"--namespace={name}" for name in parameters.get("namespaces") or ()]
    return settings.parse(names or (["-A"] if parameters.get("clusterwide") else []))


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Set kopf up to watch and nothing else, and start the controller."""
    global controller
    controller = Controller(configured or _from_environment())
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = settings.persistence.progress_storage = Unremembered()
    settings.networking.request_timeout = controller.settings.request_timeout
    settings.queueing.exit_timeout = 0.2
    # kopf has a task an object until no event came for this long: more tasks, more memory; fewer,
    # more of them are started anew.
    settings.queueing.idle_timeout = 0.3
    settings.process.ultimate_exiting_timeout = ENDING
    settings.watching.label_selectors["", "v1", "pods"] = pods.SELECTOR
    # docs/decisions/0012-a-late-kind-is-a-restart.md
    settings.scanning.disabled = True
    try:
        await controller.start()
    except OSError as error:  # kopf would try again for ever; a supervisor knows better
        sys.exit(
            f"message-operator: {error.strerror}. Choose another --metrics-bind-address or "
            "--health-probe-bind-address, or end the process that has it."
        )
    if configured is not None:  # not under `kopf run`
        asyncio.get_running_loop().call_soon(_catch_signals)  # after kopf has set its own


def _catch_signals() -> None:
    """Stop at the first signal, end at the second; kopf's own handlers fail at the second."""

    def caught(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()
        # Not only once kopf has stopped all it does: the next leader waits for the Lease.
        stopped = loop.create_task(controller.stop())
        loop.call_later(PROMPT, lambda: os._exit(exit_code() if stopped.done() else 128 + number))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, caught, number)


def exit_code() -> int:
    """Give the exit code for when it is told to stop: 1 if it was by the controller's failure."""
    return int("controller" in globals() and controller.failed)


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    """Stop the controller; if kopf has not ended soon after, end without it."""
    await controller.stop()
    # After a watch that failed, a task of kopf's may wait for ever for a session that is closed.
    status = exit_code() if stopping.is_set() else 1
    asyncio.get_running_loop().call_later(PROMPT, os._exit, status)


@kopf.on.login(backoff=5)
async def login(**_: Any) -> kopf.AiohttpSession:
    """Share one session with kopf."""
    return controller.login(await asyncio.to_thread(kube.credentials))


@kopf.on.event(messages.GROUP, messages.VERSION, messages.PLURAL)
async def message(type: str | None, event: kopf.RawEvent, **_: Any) -> None:
    """Pass a Message on."""
    controller.message_seen(dict(event["object"]), gone=type == "DELETED")


@kopf.on.event("", "v1", "pods")
async def pod(type: str | None, event: kopf.RawEvent, **_: Any) -> None:
    """Pass a Pod on."""
    controller.pod_seen(dict(event["object"]), gone=type == "DELETED")
