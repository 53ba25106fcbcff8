"""What the plugin knows: what each reason and each alert means, and what to do about it.

This is the one source. `why`, `doctor` and `explain` print it, and `make generate` writes
docs/reasons.md and docs/reasons.ko.md of it. Most reasons of a Message's Ready condition are not
the operator's own but the API server's or the kubelet's. Where one reason has several causes, the
condition's message tells them apart.

entry       what an entry is
admission   the API server refuses the Pod
api_server  the API server does not answer as it should
operator    what the operator finds in the way
pods        why a Pod does not run
alerts      the chart's alerts
refusals    why kubectl fails
"""

from __future__ import annotations

import re

from kubectl_message.knowledge import admission, api_server, operator, pods
from kubectl_message.knowledge.entry import Entry

ENTRIES = (*admission.ENTRIES, *api_server.ENTRIES, *operator.ENTRIES, *pods.ENTRIES)


def find(reason: str, message: str) -> Entry | None:
    """Return what is known of a reason with a message, None where nothing is."""
    for entry in ENTRIES:
        meant = not entry.reasons or reason in entry.reasons
        if meant and re.search(entry.pattern, message):
            return entry
    return None


def about(reason: str) -> list[Entry]:
    """Return all that is known of a reason."""
    return [entry for entry in ENTRIES if reason in entry.reasons]
