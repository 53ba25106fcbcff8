"""`kubectl message logs`: what a Message's Pod prints."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_message import why
from kubectl_message.kubectl import Kubectl
from kubectl_message.messages import CONTAINER, KIND, state


def show(kubectl: Kubectl, name: str, flags: Sequence[str]) -> int:
    """Print the log; where there is none yet, say why. Return the exit code."""
    message = kubectl.get(KIND, name)
    if message is None:
        return why.of_name(kubectl, name)
    pod = state(message).pod
    if kubectl.show("logs", pod, f"--container={CONTAINER}", *flags) == 0:
        return 0
    why.of_name(kubectl, name)
    return 1
