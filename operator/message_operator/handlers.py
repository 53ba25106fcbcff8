"""The seam with kopf: its settings, and a few thin functions that pass on what it watches.

kopf finds the handlers when this module is imported: by ``__main__``, or by
``kopf run --standalone -m message_operator.handlers``.
"""

import asyncio
import sys
from typing import Any

import click
import kopf

from message_operator import kube, messages, pods, settings
from message_operator.controller import Controller

#: What ``__main__`` parsed; under ``kopf run``, what the environment says.
configured: settings.Settings | None = None
controller: Controller


class Unremembered(kopf.DiffBaseStorage):
    """Keeps kopf from copying each object to find what changed: nobody asks it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Find nothing worth comparing."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        """Remember nothing."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


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
    settings.persistence.diffbase_storage = Unremembered()
    settings.networking.request_timeout = controller.settings.request_timeout
    settings.queueing.exit_timeout = 0.2
    # kopf has a task an object until no event came for this long: 20,000 at a start with as many
    # objects, whose memory Python would keep.
    settings.queueing.idle_timeout = 0.1
    settings.watching.chunk_size = kube.PAGE
    settings.watching.label_selectors["", "v1", "pods"] = pods.SELECTOR
    # With listed namespaces there is no right to anything clusterwide, nor need for it.
    settings.scanning.disabled = bool(controller.settings.namespaces)
    try:
        await controller.start()
    except OSError as error:  # kopf would try again for ever; a supervisor knows better
        sys.exit(
            f"message-operator: {error.strerror}. Choose another --metrics-bind-address or "
            "--health-probe-bind-address, or end the process that has it."
        )


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    """Stop the controller."""
    await controller.stop()


@kopf.on.login(backoff=5)
async def login(**_: Any) -> kopf.AiohttpSession:
    """Share one session with kopf."""
    return controller.api.login(await asyncio.to_thread(kube.credentials))


@kopf.on.event(messages.GROUP, messages.VERSION, messages.PLURAL)
async def message(type: str | None, event: kopf.RawEvent, **_: Any) -> None:
    """Pass a Message on."""
    controller.message_seen(dict(event["object"]), gone=type == "DELETED")


@kopf.on.event("", "v1", "pods")
async def pod(type: str | None, event: kopf.RawEvent, **_: Any) -> None:
    """Pass a Pod on."""
    controller.pod_seen(dict(event["object"]), gone=type == "DELETED")
