"""`kubectl message logs`: prints the log of a Message's Pod."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from kubectl_message import why
from kubectl_message.kubectl import Kubectl
from kubectl_message.messages import CONTAINER, KIND, state


def show(kubectl: Kubectl, name: str, flags: Sequence[str]) -> int:
    """Print the log, or on stderr why it is missing; return the exit code."""
    message = kubectl.get(KIND, name)
    if message is None:
        return why.of_name(kubectl, name)
    now = state(message)
    code = kubectl.logs(now.pod, f"--container={CONTAINER}", *flags)
    if code == 0 and now.prints:  # without a node, kubectl prints nothing and succeeds
        return 0
    with contextlib.redirect_stdout(sys.stderr):
        why.of_name(kubectl, name)
    return 1
