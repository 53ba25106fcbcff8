"""The objects that only queue others, whose names an author's `watches(to=)` returns for them."""

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Read, Seen
from kopf_runtime.watching.references import Namers, keys
from kopf_runtime.watching.source import Source, Watched


def mapped(client: Client, metrics: Metrics, namers: Namers, read: Read) -> Source[Seen]:
    """Return a source whose records have the keys of the others, and what counts as a change."""

    def record(thing: Object, _: Seen | None) -> Seen:
        meta = thing.metadata
        others = tuple(keys(read, thing, namers.kind))
        return Seen(meta.key, meta.uid, meta.version, (others, read.transform(thing)))

    def changed(record: Seen | None, former: Seen | None) -> None:
        states = [(seen.uid, seen.view) for seen in (record, former) if seen is not None]
        if len(states) == 1 or states[0] != states[1]:
            for key in {key for _, (others, _) in states for key in others}:
                namers.changed(key, read.kind)

    return Source(client, metrics, Watched(read.kind, read.type), record, changed)
