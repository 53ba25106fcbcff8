"""What the API server says that the operator may is what the chart's roles say, and no more."""

import asyncio
import time

import pytest

from tests.support.faults.control_plane import OPERATOR
from tests.support.faults.world import PATIENCE, World
from tests.support.rights import REVIEWS, Right, bound_roles, granted, review, told

pytestmark = pytest.mark.api


async def own_rights(here: World, namespace: str) -> set[Right]:
    """Return what the operator may do in a namespace that not everybody may."""
    everybody = "system:serviceaccount:operators:default"
    return await all_rights(here, namespace, OPERATOR) - await all_rights(
        here, namespace, everybody
    )


async def all_rights(here: World, namespace: str, user: str) -> set[Right]:
    """Return all that a user may do in a namespace."""
    plane, session = here.cluster.plane, here.cluster.session
    async with session.post(
        plane.server + REVIEWS, json=review(namespace), headers={"Impersonate-User": user}
    ) as response:
        response.raise_for_status()
        return told(await response.json())


async def until_its_rights_are(here: World, namespace: str, wanted: set[Right]) -> None:
    """Wait until the API server has heard of each role and binding."""
    deadline = time.monotonic() + PATIENCE
    while (found := await own_rights(here, namespace)) != wanted:
        assert time.monotonic() < deadline, found ^ wanted
        await asyncio.sleep(0.1)


async def test_the_operator_may_do_what_its_roles_say_and_nothing_else(here: World) -> None:
    listed = bound_roles(watchNamespaces=["somewhere"])

    await until_its_rights_are(here, here.namespace, granted(listed, "Role"))
    assert await own_rights(here, "default") == set()

    await here.allow(None)

    await until_its_rights_are(here, "default", granted(bound_roles(), "ClusterRole"))
