"""Collects what the caches and the clock say of an object, for the author's functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Child, Owner, Wanted
from kopf_runtime.watching.availability import Use
from kopf_runtime.watching.caches import Caches
from kopf_runtime.watching.source import Source


class Observer:
    """Observes the objects of one kind with all that belongs to them."""

    def __init__(
        self, client: Client, settings: Callable[[], Any], caches: Caches, label: str
    ) -> None:
        self._label = label  # which has an owner's uid
        self._client, self._settings = client, settings
        self._children, self._descendants = caches.children, caches.descendants
        self._reads = caches.reads

    def served(self, owner: Owner) -> list[Wanted]:
        """Return the wanted children, without those of optional kinds that are not there."""
        return served(owner, self._children)

    def wanted(self, owner: Owner) -> tuple[Child, ...]:
        """Return the children that exist and are wanted, in the order of the plan."""
        children = (self._children[w.kind].cache.get(w.key) for w in self.served(owner))
        return tuple(c for c in children if c is not None and c.controller_uid == owner.uid)

    def children(self, owner: Owner) -> tuple[Child, ...]:
        """Return all children that exist: first those that are wanted, then by kind and name."""
        wanted = self.wanted(owner)
        names = {(child.kind, child.key) for child in wanted}
        every = (child for source in self._children.values() for child in _sorted(source, owner))
        return *wanted, *(child for child in every if (child.kind, child.key) not in names)

    def unseen(self, owner: Owner) -> dict[Kind, str]:
        """Return the kinds of which not all objects of an owner can be seen now, with the reasons.

        What is missing of them must not be taken for gone.
        """
        sources = (*self._children.values(), *self._descendants.values())
        # Without its CRD a kind has no objects, and must not keep others from their end.
        space, gone = owner.key[0], owner.deleting
        reasons = {
            source.kind: source.why_unseen(space, gone=gone)
            or source.why_unread(owner, self._label)
            for source in sources
        }
        return {kind: why for kind, why in reasons.items() if why}

    def results(self, owner: Owner) -> dict[str, Any]:
        """Return what every function gets: the settings, what is read, what the calls returned."""
        return {
            "namespace": owner.key[0],
            "reads": self._reads.views(owner),
            "settings": self._settings(),
            "sync_result": owner.sync_result.value if owner.sync_result is not None else None,
            "check_result": owner.check_result.value if owner.check_result is not None else None,
        }

    def given(self, owner: Owner, children: Sequence[Child]) -> dict[str, Any]:
        """Return what the context of an object with these children consists of."""
        # Anybody may label an object as a descendant, but only where they may create one.
        places = {owner.key[0], *(child.key[0] for child in children)}
        return {
            "now": self._client.now(),
            "children": children,
            "serves": lambda kind: self._serves(kind, owner.key[0]),
            "stored": owner.status,
            **self.results(owner),
            "descendants": {
                kind: [record for record in _sorted(source, owner) if record.key[0] in places]
                for kind, source in self._descendants.items()
            },
        }

    def _serves(self, kind: Kind, namespace: str) -> bool:
        if (source := self._children.get(kind)) is None:
            raise LookupError(f"{kind.kind} is not owned; declare it by controller.owns")
        return not source.why_not(Use.CHANGE, namespace)


def served(owner: Owner, children: Mapping[Kind, Source[Child]]) -> list[Wanted]:
    """Return the wanted children, without those of optional kinds that are not there."""
    return [child for child in owner.wanted if not children[child.kind].absent(child.key[0])]


def _sorted(source: Source[Child], owner: Owner) -> list[Child]:
    return sorted(source.owned(owner), key=lambda child: child.key)
