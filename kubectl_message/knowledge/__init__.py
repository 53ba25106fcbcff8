"""The plugin's knowledge: what each reason and each alert means, and what to do about it.

This is the only source. `why`, `doctor` and `explain` print it, and `make generate` generates
docs/reasons.md and docs/reasons.ko.md from it. Most reasons of a Message's Ready condition are not
the operator's own, but the API server's or the kubelet's. If a reason has several causes, the
condition's message tells them apart.

entry       the type of an entry
admission   the API server refuses the Pod
api_server  the API server does not answer as it should
operator    problems that the operator itself finds
pods        why a Pod does not run
events      the Events that the operator records
alerts      the chart's alerts
"""

from __future__ import annotations

import re

from kubectl_message.knowledge import admission, api_server, operator, pods
from kubectl_message.knowledge.entry import Entry

ENTRIES = (*admission.ENTRIES, *api_server.ENTRIES, *operator.ENTRIES, *pods.ENTRIES)


def find(reason: str, message: str) -> Entry | None:
    """Return the entry for a reason with a message, or None."""
    for entry in ENTRIES:
        meant = not entry.reasons or reason in entry.reasons
        if meant and re.search(entry.pattern, message):
            return entry
    return None


def about(reason: str) -> list[Entry]:
    """Return all entries for a reason."""
    return [entry for entry in ENTRIES if reason in entry.reasons]
