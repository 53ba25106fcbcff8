"""Has kopf's discovery leave out an API group that cannot be read, instead of ending the process.

For a handler whose resource is named without its group, kopf reads all groups once, and one that
does not answer, such as that of an APIService whose Service is down, would end the operator. kopf
has no public name for that; a test notices if it moves.
"""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import aiohttp
import kopf
from kopf._cogs.clients import errors, scanning

logger = logging.getLogger(__name__)

#: Pauses in seconds before such a group is read again. kopf's own take a minute, and hold up all.
PAUSES = (1, 2)
#: The groups of what kopf itself needs.
_OWN = {"", "apiextensions.k8s.io"}
_read: Callable[..., Awaitable[Collection[Any]]] = scanning._read_version


def forgive(registry: kopf.OperatorRegistry) -> None:
    """Leave out groups that cannot be read, if no handler of a registry names them."""

    async def read(*, settings: kopf.OperatorSettings, group: str, **more: Any) -> Collection[Any]:
        if group in _OWN | _named(registry):
            return await _read(settings=settings, group=group, **more)
        networking = dataclasses.replace(settings.networking, error_backoffs=PAUSES)
        few = dataclasses.replace(settings, networking=networking)
        try:
            return await _read(settings=few, group=group, **more)
        except (errors.APIError, aiohttp.ClientError, TimeoutError) as error:
            logger.warning(
                "The API group %s cannot be read: %s; until a restart, kopf's handlers get nothing "
                "of its kinds",
                group,
                error,
            )
            return ()

    scanning._read_version = read


def _named(registry: kopf.OperatorRegistry) -> set[str]:
    parts: tuple[Any, ...] = (
        registry._webhooks,
        registry._indexing,
        registry._watching,
        registry._spawning,
        registry._changing,
    )
    selectors = (handler.selector for part in parts for handler in part.get_all_handlers())
    return {selector.group for selector in selectors if selector is not None and selector.group}
