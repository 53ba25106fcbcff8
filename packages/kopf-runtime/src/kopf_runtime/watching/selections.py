"""The objects of one kind that others select by their labels."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.kinds import Key
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.parsers import LABEL
from kopf_runtime.declaring.records import Labels, Name, Owner, Read, Seen, Unreadable
from kopf_runtime.watching.references import UNREAD, Namers, References, invalid

#: Objects of a kind that one may name or select: they are asked for one after the other.
MAX_NAMES = 100
#: By what most objects are selected: an empty set of its own would take 216 bytes for each.
_NOTHING: frozenset[Labels] = frozenset()


class Selections(References):
    """The objects of a kind that others select."""

    def __init__(self, client: Client, metrics: Metrics, namers: Namers, read: Read) -> None:
        # The keys of what is selected; which may not be all of them; and the labels to compare with
        # those of an object, by its namespace and one of its labels.
        self._members: dict[Labels, set[Key]] = {}
        self._partial: set[Labels] = set()
        self._by_label: dict[tuple[str, tuple[str, str]], set[Labels]] = {}
        super().__init__(client, metrics, namers, read)

    def names(self, thing: Object) -> Iterator[Labels]:
        """Yield what an object selects."""
        assert self._read.labels is not None
        pairs = tuple(sorted(dict(self._read.labels(thing)).items()))
        if not pairs:
            raise invalid(
                f"labels= returned no label, which would select every {self.kind.kind}; return at "
                "least one"
            )
        for label, value in pairs:
            texts = isinstance(label, str) and isinstance(value, str)
            if not (texts and LABEL.fullmatch(f"{label}={value}")):
                raise invalid(f"{label!r:.80}: {value!r:.80} cannot be a label of {self.kind}")
        yield Labels(thing.metadata.namespace if self.kind.namespaced else "", pairs)

    def add(self, labels: Labels) -> None:
        """Note that objects are selected by these labels."""
        if labels in self._members:
            return
        self._members[labels] = set()
        places = [(labels.namespace, pair) for pair in labels.pairs]
        rarest = min(places, key=lambda place: len(self._by_label.get(place, ())))
        self._by_label.setdefault(rarest, set()).add(labels)
        if any(True for _ in self.source.cache.within(labels.namespace or None)):
            self._partial.add(labels)  # those that are known were not compared

    def drop(self, labels: Labels) -> None:
        """Forget what nobody selects any more."""
        self._partial.discard(labels)
        for pair in labels.pairs:  # it is at one of them
            same = self._by_label.get(where := (labels.namespace, pair), set())
            same.discard(labels)
            if not same:
                self._by_label.pop(where, None)
        for key in self._members.pop(labels, ()):
            if (seen := self.source.cache.get(key)) is not None:
                others = seen.selected - {labels} or _NOTHING
                view = seen.view if others else UNREAD
                self.source.cache.put(replace(seen, view=view, selected=others))

    def views(self, labels: Labels) -> dict[Key, Any]:
        """Return what `transform` returned of what is selected."""
        seen = {key: self.source.cache.get(key) for key in self._chosen(labels)}
        return {key: one.view if one is not None else None for key, one in seen.items()}

    def unread(self, labels: Labels) -> bool:
        """Return whether what is selected has yet to be read."""
        return labels in self._partial or labels not in self._members

    async def read(self, _: Owner, labels: Labels) -> None:
        """Read what is selected again; raise `NotReadableError` or `ApiError`."""
        if (members := self._members.get(labels)) is None:
            return
        answered = await self.source.select(labels.namespace, str(labels))
        for key in answered:
            if (seen := self.source.cache.get(key)) is not None and labels in seen.selected:
                members.add(key)
        for key in members.difference(answered):  # it is gone, or has lost a label
            await self._fetch(key)
        if self._members.get(labels) is members:  # else it was selected again meanwhile
            self._partial.discard(labels)

    def check(self, owner: Owner, labels: Labels) -> None:
        """Refuse what cannot be read; raise `NotReadableError`."""
        if len(self._chosen(labels)) > MAX_NAMES:
            raise invalid(
                f"its labels select more than {MAX_NAMES} objects of {self.kind}, the most"
            )
        every = self.source.unreadable.within(labels.namespace or None)
        ours = (u for u in every if self._namers.selected(u.key[0]))
        skipped = next((u for u in ours if labels.match(u.key[0], u.labels)), None)
        self._check_seen(owner, labels.namespace, skipped)

    def turned(self, namespace: str) -> None:
        """Queue who selects objects of a namespace that has just been (de)selected."""
        for labels, members in self._members.items():
            if any(key[0] == namespace for key in members):
                self._namers.queue((self.kind, labels))
        for skipped in self.source.unreadable.within(namespace):
            self._skipped(skipped)

    def _chosen(self, labels: Labels) -> list[Key]:
        members = self._members.get(labels, ())
        return sorted(key for key in members if self._namers.selected(key[0]))

    def _selecting(self, key: Key, labels: Mapping[str, str]) -> frozenset[Labels]:
        """Return the labels by which an object is selected."""
        return frozenset(
            selector
            for pair in labels.items()
            for namespace in {key[0], ""}
            for selector in self._by_label.get((namespace, pair), ())
            if selector.match(key[0], labels)
        )

    def _record(self, thing: Object, _: Seen | None) -> Seen:
        meta = thing.metadata
        selected = self._selecting(meta.key, meta.labels or {}) or _NOTHING
        view = self._read.transform(thing) if selected else UNREAD
        return Seen(meta.key, meta.uid, meta.version, view, selected)

    def _changed(self, record: Seen | None, former: Seen | None) -> None:
        latest = record or former
        assert latest is not None
        has, had = (seen.selected if seen is not None else _NOTHING for seen in (record, former))
        for labels in had - has:
            self._members.get(labels, set()).discard(latest.key)
        for labels in has - had:
            self._members[labels].add(latest.key)
        same = record is not None and former is not None and record.view == former.view
        for labels in has ^ had if same else has | had:
            self._namers.queue((self.kind, labels))

    def _names_of(self, skipped: Unreadable) -> list[Name]:
        selecting = self._selecting(skipped.key, skipped.labels)
        return [(self.kind, labels) for labels in selecting]
