"""Knows the namespaces that match the namespace selector, and reports when one comes or goes.

Each `Runtime` has one. All namespaces are watched, but objects in the others are not reconciled;
docs/decisions/runtime.md says why.
"""

import logging
from collections.abc import Callable

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import NAMESPACE
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Selected
from kopf_runtime.watching.availability import Use
from kopf_runtime.watching.source import Source, Watched

logger = logging.getLogger(__name__)


class Selection:
    """The namespaces that match the selector; all of them if there is no selector."""

    def __init__(
        self, client: Client, metrics: Metrics, selector: str, turned: Callable[[str], object]
    ) -> None:
        self._turned = turned
        #: The source of the namespaces, if there is a selector.
        self.sources: list[Source[Selected]] = []
        if selector:
            watched = Watched(NAMESPACE, selector=selector)
            self.sources = [Source(client, metrics, watched, _read, self._changed)]

    def has(self, namespace: str) -> bool:
        """Return whether a namespace is selected; cluster-scoped objects (empty) always are."""
        if not (namespace and self.sources):
            return True
        return all(source.cache.get(("", namespace)) for source in self.sources)

    @property
    def synced(self) -> bool:
        """Whether the namespaces are known; false during the first list and one after a gap."""
        return not any(source.why_not(Use.SERVE, "") for source in self.sources)

    def _changed(self, record: Selected | None, former: Selected | None) -> None:
        if record is None:
            assert former is not None
            self._log("The namespace %s is not selected any more: it is left alone", former)
            self._turned(former.key[1])
            return
        if former is None:
            self._log("The namespace %s is selected by its labels now", record)
        # During a gap of the watch, the label or the namespace may have gone and come back.
        if former is None or former.uid != record.uid or not self.synced:
            self._turned(record.key[1])

    def _log(self, text: str, about: Selected) -> None:
        if self.synced:
            logger.info(text, about.key[1])


def _read(thing: Object, _: Selected | None) -> Selected:
    return Selected(thing.metadata.key, thing.metadata.uid, thing.metadata.version)
