"""The operator: the kind that it serves, what the kind owns, and the functions that decide.

`__main__` runs it, and so does `kopf run --standalone -A -m message_operator.operator`.
"""

from collections.abc import Iterable
from typing import Any

import kopf_runtime as kr
from message_operator import __version__, messages, openshift, pods
from message_operator.messages import Message
from message_operator.settings import Settings

manager = kr.Manager(
    "message-operator",
    Settings,
    version=__version__,
    description="Turns every Message into a Pod that prints it.",
)
manager.adapt(openshift.adapt)
controller = manager.controller_for(Message, transform=messages.project)
controller.owns(
    kr.kinds.POD, kr.Pod, update=kr.RECREATE, transform=pods.project, finished=lambda pod: pod.ended
)
controller.status(messages.status)
manager.metrics.registry.register(
    messages.Phases(f"{manager.metrics.prefix}_messages", lambda: iter(controller.owners))
)


@controller.desired
def desired(message: Message, context: kr.Context[Settings]) -> Iterable[dict[str, Any]]:
    """Return the Pod of a Message, as a list of one."""
    spec, settings = message.spec, context.settings
    yield pods.manifest(message.metadata.name, spec.text, spec.interval_seconds, settings)
