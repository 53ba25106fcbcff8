"""All that is used of kopf beside its public names; it is imported only for handlers of kopf's.

kopf may move any of it in any release. An operator without handlers of kopf's would not notice;
one with them ends at once, and a test names each part.
"""

import dataclasses
import importlib.metadata
import logging
from collections.abc import Collection
from typing import Any

import aiohttp
import kopf

from kopf_runtime.declaring.errors import DeclarationError
from kopf_runtime.process.kopf_registry import groups

try:
    from kopf._cogs.clients import scanning
    from kopf._cogs.clients.errors import APIError
    from kopf._cogs.structs.references import Insights, Resource
    from kopf._core.engines.admission import MemoGetter, build_webhooks, serve_admission_request

    _read = scanning._read_version
except (ImportError, AttributeError) as error:
    raise DeclarationError(
        f"kopf {importlib.metadata.version('kopf')} has moved what its handlers need here "
        f"({error}); install one that kopf-runtime supports"
    ) from error

__all__ = [
    "Insights",
    "MemoGetter",
    "Resource",
    "build_webhooks",
    "forgive",
    "serve_admission_request",
]

logger = logging.getLogger(__name__)

#: Pauses in seconds before such a group is read again. kopf's own take a minute, and hold up all.
PAUSES = (1, 2)
#: The groups of what kopf itself needs.
_OWN = {"", "apiextensions.k8s.io"}


def forgive(registry: kopf.OperatorRegistry) -> None:
    """Have kopf's discovery leave out groups that cannot be read, if no handler names them.

    For a handler whose resource is named without its group, kopf reads all groups once, and one
    that does not answer, such as that of an APIService whose Service is down, would end the
    operator.
    """

    async def read(*, settings: kopf.OperatorSettings, group: str, **more: Any) -> Collection[Any]:
        if group in _OWN | groups(registry):
            return await _read(settings=settings, group=group, **more)
        networking = dataclasses.replace(settings.networking, error_backoffs=PAUSES)
        few = dataclasses.replace(settings, networking=networking)
        try:
            return await _read(settings=few, group=group, **more)
        except (APIError, aiohttp.ClientError, TimeoutError) as error:
            logger.warning(
                "The API group %s cannot be read: %s; until a restart, kopf's handlers get nothing "
                "of its kinds",
                group,
                error,
            )
            return ()

    scanning._read_version = read
