"""Has kopf go on where it would end the process, because it cannot read or watch some kind.

kopf reads the API groups that its handlers name, or all if one names none, at its start and when a
CRD changes. One that does not answer, such as that of an APIService whose Service is down, would
end the operator; and so would a watch that fails, as after the deletion of the kind's CRD. Here
both are tried again until they succeed.
"""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Collection
from typing import Any

import aiohttp
import kopf

from kopf_runtime.declaring.errors import Backoff
from kopf_runtime.process import kopf_private as private

logger = logging.getLogger(__name__)

#: Pauses in seconds before a group is read again. kopf's own take a minute, and hold up all.
PAUSES = (1, 2)
#: The longest pause in seconds before what failed several times is tried again.
LONGEST = 30.0
#: The groups of what kopf itself needs.
_OWN = {"", "apiextensions.k8s.io"}
#: What kopf watches for itself, and does without if that is forbidden.
_OBSERVED = {"namespaces", "customresourcedefinitions"}
_FAILURES = private.APIError, private.WatchingError, aiohttp.ClientError, TimeoutError


class KopfFailures:
    """Stands between kopf and what it reads and watches."""

    def __init__(self) -> None:
        #: The groups that could not be read, and what reads them again.
        self._failed = set[str]()
        self._again = dict[str, asyncio.Task[None]]()
        #: What kopf has last revised, and the registry.
        self._revised: dict[str, Any] = {}
        self._backoffs = dict[tuple[Any, Any], Backoff]()

    def forgive(self) -> None:
        """Have kopf read and watch by this."""
        private.scanning._read_version = self._read_version
        private.observation.revise_resources = self._revise_resources
        private.watching.continuous_watch = self._continuous_watch

    def end(self) -> None:
        """Read nothing again."""
        for task in self._again.values():
            task.cancel()

    def _revise_resources(self, *, insights: Any, registry: Any, **more: Any) -> None:
        self._revised = {"insights": insights, "registry": registry}
        private.revise_resources(**self._revised, **more)

    async def _read_version(
        self, *, settings: kopf.OperatorSettings, group: str, **more: Any
    ) -> Collection[Any]:
        if group in _OWN:
            return await private.read_version(settings=settings, group=group, **more)
        pauses = () if group in self._again else PAUSES
        networking = dataclasses.replace(settings.networking, error_backoffs=pauses)
        few = dataclasses.replace(settings, networking=networking)
        try:
            return await private.read_version(settings=few, group=group, **more)
        except _FAILURES as error:
            self._failed.add(group)
            if group not in self._again:
                logger.warning(
                    "The API group %s cannot be read: %s; until it can, kopf's handlers get "
                    "nothing of its kinds",
                    group,
                    error,
                )
                self._again[group] = asyncio.create_task(self._read_again(group, settings))
            return ()

    async def _read_again(self, group: str, settings: kopf.OperatorSettings) -> None:
        """Read a group until all of it can be read, and give kopf its kinds."""
        backoff = Backoff(PAUSES[-1], LONGEST)
        while group in self._failed:
            await asyncio.sleep(backoff.next())
            self._failed.discard(group)
            try:
                resources = await private.scanning.scan_resources(
                    groups={group}, settings=settings, logger=logger
                )
            except _FAILURES:
                self._failed.add(group)
        del self._again[group]
        logger.info("The API group %s can be read again", group)
        insights = self._revised["insights"]
        async with insights.revised:
            self._revise_resources(resources=resources, group=group, **self._revised)
            insights.revised.notify_all()

    async def _continuous_watch(
        self, *, resource: Any, namespace: Any, **more: Any
    ) -> AsyncIterator[Any]:
        """Yield as kopf does; kopf calls this again at once after it ends."""
        backoff = self._backoffs.setdefault((resource, namespace), Backoff(PAUSES[0], LONGEST))
        try:
            events = private.continuous_watch(resource=resource, namespace=namespace, **more)
            async for event in events:
                yield event
                backoff.reset()
        except _FAILURES as error:
            if isinstance(error, private.APIForbiddenError) and resource.plural in _OBSERVED:
                raise
            logger.warning(
                "kopf's handlers get nothing of %s meanwhile, as its watch fails: %s",
                resource,
                error,
            )
            await asyncio.sleep(backoff.next())
