"""Asks the cluster whether it assigns users to Pods itself, as OpenShift does.

The manager calls `adapt` at the start; docs/decisions/runtime.md says why.
"""

import asyncio
import logging
from dataclasses import replace

import kopf_runtime as kr
from message_operator.settings import AUTO, Settings

logger = logging.getLogger(__name__)

#: The group of SecurityContextConstraints; every authenticated user may ask for it.
GROUP = "security.openshift.io"
#: Seconds between two requests while they are refused: an API server that has just started has not
#: loaded its roles yet, and refuses everybody.
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


async def adapt(client: kr.Client, settings: Settings) -> Settings:
    """Return the settings, without a user if the cluster assigns one; raise `ApiError`."""
    if settings.message_user != AUTO or not await _gives_users(client):
        return settings
    logger.info("The message Pods get their user from the cluster: it has %s", GROUP)
    return replace(settings, message_user=None)


async def _gives_users(client: kr.Client) -> bool:
    for pause in (*PAUSES, 0.0):
        try:
            await client.ask("GET", f"/apis/{GROUP}")
        except kr.ApiError as error:
            if error.status == 404:
                return False
            if error.status != 403:
                raise
            logger.info("The API server does not say whether it has %s: %s", GROUP, error.message)
        else:
            return True
        await asyncio.sleep(pause)
    logger.warning(
        "The API server refuses to say whether it has %s, so the operator assumes that it does "
        "not. On OpenShift, set --message-user=none, or bind the ClusterRole system:discovery to "
        "the operator",
        GROUP,
    )
    return False
