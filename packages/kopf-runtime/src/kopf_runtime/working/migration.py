"""Rewrites what is stored in a former version of a kind, so that this version can be given up.

The leader does it, if `--migrate-storage` says so. The API server stores an object in the present
version when it is written, and a patch that changes nothing is enough; it writes nothing at all for
an object that is stored in that version already. So a leader that continues begins with the first
object, and loses no more than time. Only when all objects are rewritten, the former version goes
from the CRD's `status.storedVersions`, and may then go from its `spec.versions`:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from kopf_runtime.cluster.client import MERGE_PATCH, Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.errors import ApiError, Backoff
from kopf_runtime.declaring.kinds import CUSTOM_RESOURCE_DEFINITION, Key, Kind
from kopf_runtime.watching.listing import Lister

logger = logging.getLogger(__name__)

#: Objects that are rewritten in a second at most.
RATE = 100.0
#: Seconds after which each API server stores in the version that a CRD names.
CRD_SETTLES = 30.0
#: Seconds between two looks at the CRDs, and between two lines of progress.
LOOK, PROGRESS = 600.0, 10.0
#: Attempts at an object, and objects that cannot be rewritten before the others are not tried.
_ATTEMPTS, _MAX_REFUSED = 5, 100


class Migration:
    """Rewrites the objects of some kinds, one kind after the other."""

    def __init__(self, client: Client, kinds: Sequence[Versions], metrics: Metrics) -> None:
        self._client, self._kinds, self._metrics = client, kinds, metrics
        self._logged: dict[str, str] = {}
        #: What this leader has rewritten of a kind, and for which generation of its CRD.
        self._done: dict[str, tuple[int, set[Key]]] = {}

    async def run(self, *_: Any) -> None:
        """Keep all objects in the version that their CRD stores; a task of the manager's."""
        backoff = Backoff(longest=LOOK)
        try:
            while True:
                # One that has to wait holds up no other.
                if all([await self._finished(versions) for versions in self._kinds]):
                    backoff.reset()
                    await asyncio.sleep(LOOK)
                else:
                    await asyncio.sleep(backoff.next())
        finally:
            self._metrics.remaining.clear()  # another replica leads

    async def _finished(self, versions: Versions) -> bool:
        """Rewrite a kind if need be; return whether all of it is in the present version."""
        name = str(versions.kind)
        try:
            problem = await self._problem(versions)
        except ApiError as error:
            problem = str(error)
        if problem and self._logged.get(name) != problem:
            logger.warning("%s is not all stored in its present version: %s", name, problem)
        self._logged[name] = problem
        return not problem

    async def _problem(self, versions: Versions) -> str:
        """Rewrite a kind, and tell its CRD; return what keeps it from that."""
        path = CUSTOM_RESOURCE_DEFINITION.path(name=str(versions.kind))
        try:
            crd = await self._client.ask("GET", path)
        except ApiError as error:
            if error.status == 404:
                return ""  # nothing is stored
            raise
        if crd["status"]["storedVersions"] == [present := _present(crd)]:
            self._metrics.remaining.labels(self._metrics.name_of(versions.kind)).set(0)
            return ""
        generation = crd["metadata"]["generation"]
        await asyncio.sleep(CRD_SETTLES)
        kind = versions.kind._replace(version=present)
        if refused := await self._rewritten(kind, generation):
            (namespace, name), why = next(iter(refused.items()))
            also = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            return f"{namespace}/{name}{also} cannot be rewritten: {why}".removeprefix("/")
        again = await self._client.ask("GET", path)
        if again["metadata"]["generation"] != generation:
            return "the CRD has changed meanwhile; beginning again"
        version = again["metadata"]["resourceVersion"]
        change = {"metadata": {"resourceVersion": version}, "status": {"storedVersions": [present]}}
        await self._client.ask("PATCH", f"{path}/status", change, content_type=MERGE_PATCH)
        self._done.pop(str(kind), None)
        logger.info("All %s are stored as %s", versions.kind.plural, present)
        return ""

    async def _rewritten(self, kind: Kind, generation: int) -> dict[Key, str]:
        """Rewrite all objects that exist by now; return why some cannot be, by their keys.

        A later attempt at the same generation of the CRD leaves out what an earlier one has done.
        """
        former, done = self._done.get(str(kind), (generation, set()))
        if former != generation:
            done = set()
        self._done[str(kind)] = generation, done
        keys = await self._listed(kind)
        remaining = self._metrics.remaining.labels(self._metrics.name_of(kind))
        remaining.set(sum(key not in done for key in keys))
        clock = asyncio.get_running_loop().time
        due = logged = clock()
        refused: dict[Key, str] = {}
        for number, key in enumerate(keys):
            if key in done:
                continue
            if (now := clock()) - logged > PROGRESS:
                logged = now
                logger.info("Rewritten: %d of %d %s", number, len(keys), kind.plural)
            await asyncio.sleep(due - now)
            due = max(due, now) + 1 / RATE  # what is late is not made up for
            if why := await self._rewrite(kind, key):
                refused[key] = why
            else:
                done.add(key)
                remaining.dec()
                self._metrics.migrated.labels(self._metrics.name_of(kind)).inc()
            if len(refused) >= _MAX_REFUSED:
                break
        return refused

    async def _listed(self, kind: Kind) -> list[Key]:
        """Return the keys of all objects, also of those that are only shown: nothing is lost."""
        keys: list[Key] = []
        async for page, _ in Lister(self._client, kind.path(), "").pages():
            for payload in page.items or ():
                meta = msgspec.json.decode(payload, type=_Named).metadata
                keys.append((meta.namespace, meta.name))
                await asyncio.sleep(0)  # reviews are answered meanwhile
        return keys

    async def _rewrite(self, kind: Kind, key: Key) -> str:
        """Rewrite an object; return why that cannot be."""
        backoff, why = Backoff(), ""
        for _ in range(_ATTEMPTS):
            try:
                await self._client.request("PATCH", kind.at(key), {}, content_type=MERGE_PATCH)
            except ApiError as error:
                why = str(error)
                if error.status == 404:  # or a webhook says so
                    return "" if await self._is_gone(kind, key) else why
                # A conflict comes from others who write it at the same moment.
                if 400 <= error.status < 500 and error.status not in (409, 429):
                    return why
                await asyncio.sleep(max(error.after, backoff.next()))
            else:
                return ""
        return why

    async def _is_gone(self, kind: Kind, key: Key) -> bool:
        try:
            await self._client.request("GET", kind.at(key))
        except ApiError as error:
            return error.status == 404
        return False


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct):
    """Of an object, what says which one it is."""

    metadata: _Metadata


def _present(crd: dict[str, Any]) -> str:
    versions = crd["spec"]["versions"]
    names: list[str] = [version["name"] for version in versions if version["storage"]]
    return names[0]
