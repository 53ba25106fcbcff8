"""What the objects of one kind name or select of others, and who does so.

Each kind that is read is one of `references` or of `selections`.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import UNSEEN, ApiError, Wait
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.declaring.objects import Object
from kopf_runtime.declaring.records import Name, Owner, Read, Seen
from kopf_runtime.watching.references import Namers, NotReadableError, Polled, References, invalid
from kopf_runtime.watching.selections import MAX_NAMES, Selections
from kopf_runtime.watching.source import Source


class Reads:
    """The objects that those of one kind name or select."""

    def __init__(
        self, client: Client, metrics: Metrics, namers: Namers, reads: Mapping[Kind, Read]
    ) -> None:
        self._namers = namers
        self.parts: dict[Kind, References] = {}
        for kind, read in reads.items():
            if read.every is not None:
                self.parts[kind] = Polled(client, namers, read, read.every)
            else:
                part = References if read.labels is None else Selections
                self.parts[kind] = part(client, metrics, namers, read)
        self.sources: dict[Kind, Source[Seen]] = {
            kind: part.source for kind, part in self.parts.items() if not isinstance(part, Polled)
        }

    # --- who names what -----------------------------------------------------------------------

    def named(self, thing: Object) -> tuple[Name, ...]:
        """Return what an object names; nothing if that is not known, as `prepare` reports."""
        with suppress(NotReadableError):
            return self.names(thing)
        return ()

    def names(self, thing: Object) -> tuple[Name, ...]:
        """Return what an object names or selects; raise `NotReadableError`."""
        names: list[Name] = []
        for kind, part in self.parts.items():
            try:
                some = list(dict.fromkeys(islice(part.names(thing), MAX_NAMES + 1)))
            except NotReadableError:
                raise
            except Exception as error:  # the author's code
                text = f"what it names of {kind} failed: {type(error).__name__}: {error}"
                raise invalid(text[:500]) from error
            if len(some) > MAX_NAMES:
                raise invalid(f"it names more than {MAX_NAMES} objects of {kind}, the most")
            names.extend((kind, named) for named in some)
        return tuple(names)

    def follow(self, record: Owner | None, former: Owner | None) -> None:
        """Note what an object names now, and forget what nobody names any more."""
        if former is not None:
            self._namers.index.remove(former.key, former.created, former.names)
        if record is not None:
            self._namers.index.add(record.key, record.created, record.names)
            for kind, named in record.names:
                self.parts[kind].add(named)
        for name in former.names if former is not None else ():
            if not self._namers.index.by_index(name):
                self.parts[name[0]].drop(name[1])

    def turned(self, namespace: str) -> None:
        """Queue who selects objects of a namespace that has just been (de)selected."""
        for part in self.parts.values():
            part.turned(namespace)

    # --- what is named ------------------------------------------------------------------------

    def views(self, owner: Owner) -> dict[Kind, dict[Key, Any]]:
        """Return the views of the objects that an object names; None stands for a missing one."""
        views: dict[Kind, dict[Key, Any]] = {kind: {} for kind in self.parts}
        for kind, named in owner.names:
            views[kind] |= self.parts[kind].views(named)
        return views

    def due(self, owner: Owner) -> float | None:
        """Return the seconds until an object has to be asked for again, or None."""
        waits = (self.parts[kind].due(named) for kind, named in owner.names)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    async def prepare(self, owner: Owner) -> None:
        """Read what an object names and is not known yet.

        Raise `NotReadableError` or `ApiError` if that is not possible.
        """
        for kind, named in self._named(owner):
            part = self.parts[kind]
            part.check(owner, named)
            await part.refresh(owner, named)
            part.check(owner, named)

    async def is_current(self, owner: Owner, progress: Callable[[], None]) -> bool:
        """Read all again that an object names; return whether its views are what they were.

        `progress` is called before each request. Raise `NotReadableError` or `ApiError` if one
        fails.
        """
        before = self.views(owner)
        for kind, named in owner.names:
            progress()
            await self.parts[kind].read(owner, named)
        return self.views(owner) == before

    async def unread(self, owner: Owner) -> Wait | None:
        """Read what an object that is being deleted names; return why that is not possible."""
        try:
            await self.prepare(owner)
        except (ApiError, NotReadableError) as error:
            text = error.message if isinstance(error, NotReadableError) else str(error)
            return Wait(error.reason or "ReferenceUnreadable", text, after=UNSEEN)
        return None

    def ready(self, owner: Owner) -> bool:
        """Return whether all that an object names is known, as `prepare` has it."""
        try:
            for kind, named in self._named(owner):
                self.parts[kind].check(owner, named)
        except NotReadableError:
            return False
        return not any(self.parts[kind].unread(named) for kind, named in owner.names)

    def _named(self, owner: Owner) -> tuple[Name, ...]:
        """Return what an object names; raise `NotReadableError` if that is not known."""
        return owner.names or (self.names(owner.thing) if owner.thing is not None else ())
