"""What the API server says that the operator may is what the chart's roles say, and no more.

And no less would do: without any of these rights, something that the operator does fails.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kopf_kit.kubectl.subject import Right
from kopf_kit.testing.requests import Raw
from kopf_kit.testing.world import ELECT, World
from tests.chart.projects import bound_roles, granted, rights
from tests.faults.messages import OPERATOR, foreign_pod

pytestmark = pytest.mark.api

#: What the operator may do in a namespace that it is told to watch, and where its Lease is.
GRANTED = sorted(granted(bound_roles(watchNamespaces=["somewhere"]), "Role"))
#: Seconds that the operator has to manage without a right, once it was refused.
GRACE = 3.0


async def own_rights(here: World, namespace: str) -> set[Right]:
    """Return what the operator may do in a namespace that not everybody may."""
    everybody = "system:serviceaccount:operators:default"
    return await all_rights(here, namespace, OPERATOR) - await all_rights(
        here, namespace, everybody
    )


async def all_rights(here: World, namespace: str, user: str) -> set[Right]:
    """Return all that a user may do in a namespace."""
    plane, session = here.cluster.plane, here.cluster.session
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    review = {"kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    review["apiVersion"] = "authorization.k8s.io/v1"
    impersonated = {"Impersonate-User": user}
    async with session.post(plane.server + path, json=review, headers=impersonated) as response:
        response.raise_for_status()
        return rights((await response.json())["status"]["resourceRules"])


async def until_its_rights_are(here: World, namespace: str, wanted: set[Right]) -> None:
    """Wait until the API server has heard of each role and binding."""
    deadline = time.monotonic() + here.subject.patience
    while (found := await own_rights(here, namespace)) != wanted:
        assert time.monotonic() < deadline, found ^ wanted
        await asyncio.sleep(0.1)


async def test_the_operator_may_do_what_its_roles_say_and_nothing_else(here: World) -> None:
    await until_its_rights_are(here, here.namespace, set(GRANTED))
    assert await own_rights(here, "default") == set()

    await here.allow(None)

    await until_its_rights_are(here, "default", granted(bound_roles(), "ClusterRole"))


# --- each right is needed -------------------------------------------------------------------------

Look = Callable[[], Awaitable[bool]]


async def day(here: World) -> AsyncIterator[tuple[str, Look]]:
    """Have the operator do all that it does; yield what must be seen after each step, and how."""

    async def is_ready() -> bool:
        return (await here.operator.probe("/readyz"))[0] == 200

    def is_processed(generation: int) -> Look:
        async def look() -> bool:
            status = (await here.cluster.ask("GET", here.object("first"))).get("status") or {}
            seen = (status.get("phase"), status.get("observedGeneration"))
            return seen == ("Processed", generation)

        return look

    def is_told(reason: str, times: int) -> Look:
        async def look() -> bool:
            events = await here.cluster.items(f"/api/v1/namespaces/{here.namespace}/events")
            return bool(
                times == sum(event["count"] for event in events if event["reason"] == reason)
            )

        return look

    async def is_replaced() -> bool:
        pod = await here.cluster.find(here.child("first"))
        return pod is not None and pod["metadata"]["uid"] != former

    async def is_a_conflict() -> bool:
        return (await here.condition("taken")).get("reason") == "Conflict"

    await here.launch(*ELECT, "--log-format=text")
    yield "it is ready", is_ready
    await here.create("하나", "first")
    yield "a Message is processed", is_processed(1)
    yield "an Event tells of it", is_told("Created", 1)
    await here.edit("둘", "first")
    yield "an edit replaces its Pod", is_processed(2)
    await here.edit("셋", "first")
    yield "a repeated Event is counted", is_told("Replaced", 2)
    yield "another edit does, too", is_processed(3)
    former = (await here.cluster.ask("GET", here.child("first")))["metadata"]["uid"]
    later = {"myorg.dev/message-generation": "99", "myorg.dev/template-hash": "other"}
    await here.cluster.patch(here.child("first"), {"metadata": {"annotations": later}})
    yield "a Pod of a later Message is doubted", is_replaced
    await here.cluster.ask("POST", here.children, foreign_pod("taken"))
    await here.create("넷", "taken")
    yield "somebody else's Pod is told of", is_a_conflict


@asynccontextmanager
async def without(here: World, right: Right) -> AsyncIterator[None]:
    """Take a right away from the operator for a while."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{here.namespace}/roles"
    roles = {role["metadata"]["name"]: role["rules"] for role in await here.cluster.items(path)}
    for name, rules in roles.items():
        less: list[Raw] = [
            {
                "apiGroups": [kept.group],
                "resources": [kept.resource],
                "verbs": [kept.verb],
                **({"resourceNames": [kept.name]} if kept.name else {}),
            }
            for kept in sorted(rights(rules) - {right})
        ]
        await here.cluster.patch(f"{path}/{name}", {"rules": less})
    await until_its_rights_are(here, here.namespace, {*GRANTED} - {right})
    yield
    for name, rules in roles.items():
        await here.cluster.patch(f"{path}/{name}", {"rules": rules})


async def first_failure(here: World, refusal: str) -> str:
    """Return the first step that fails after such a refusal; empty if all succeed."""
    async for what, look in day(here):
        refused, began = 0.0, time.monotonic()
        while not await look():
            now = time.monotonic()
            log = here.operator.log  # which the process opens
            if not refused and log.exists() and refusal in log.read_text(errors="replace"):
                refused = now
            if refused and now - refused > GRACE:
                return what
            assert now - began < here.subject.patience, here.story(what)
            await asyncio.sleep(0.1)
    return ""


async def test_with_all_rights_the_operator_does_all_that_it_does(here: World) -> None:
    assert await first_failure(here, "forbidden") == ""
    assert "forbidden" not in here.operator.log.read_text()


@pytest.mark.long
@pytest.mark.parametrize("right", GRANTED, ids=str)
async def test_without_any_right_something_fails(here: World, right: Right) -> None:
    async with without(here, right):
        failed = await first_failure(here, f'cannot {right.verb} resource "{right.resource}"')

    assert failed, f"the operator does all that it does without the right to {right}"
