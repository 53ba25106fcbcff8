"""Asks whether the cluster gives Pods their users itself, as OpenShift does.

The manager calls `adapt` at the start; docs/decisions/0017-openshift-by-discovery.md says why so.
"""

import logging
from dataclasses import replace

import kopf_runtime as kr
from message_operator.settings import AUTO, Settings

logger = logging.getLogger(__name__)

#: The group of SecurityContextConstraints; every authenticated user may ask for it.
GROUP = "security.openshift.io"


async def adapt(client: kr.Client, settings: Settings) -> Settings:
    """Return the settings, without a user where the cluster gives one; raise `ApiError`."""
    if settings.message_user != AUTO or not await _gives_users(client):
        return settings
    logger.info("The message Pods get their user from the cluster: it has %s", GROUP)
    return replace(settings, message_user=None)


async def _gives_users(client: kr.Client) -> bool:
    try:
        await client.ask("GET", f"/apis/{GROUP}")
    except kr.ApiError as error:
        if error.status not in (403, 404):
            raise
        if error.status == 403:
            logger.warning(
                "The API server does not say whether it has %s: %s. On OpenShift, set "
                "--message-user=none, or bind the ClusterRole system:discovery to the operator",
                GROUP, error.message,
            )  # fmt: skip
        return False
    return True
