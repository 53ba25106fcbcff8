"""What `generate` takes, a real API server takes, stores and gives back; what it refuses, too.

The variable SEED repeats a walk.
"""

import asyncio
import os
import random
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_kit.crd import acceptable
from kopf_kit.crd.generated import definition
from kopf_kit.crd.structural import DeclarationError
from kopf_kit.testing.cluster import Cluster, RefusedError
from kopf_runtime.declaring.declaration import declared
from tests.faults import classes

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SEED = os.environ.get("SEED") or str(random.randrange(10**6))  # noqa: S311


async def refused(cluster: Cluster, crd: Any) -> str:
    """Return why an API server refuses a CRD, or nothing; what it takes, it keeps as it is."""
    try:
        answer = await cluster.ask("POST", f"{CRDS}?dryRun=All", crd)
    except RefusedError as error:
        return str(error)
    wanted, (kept,) = crd["spec"]["versions"][0]["schema"], answer["spec"]["versions"]
    return "" if kept["schema"] == wanted else f"it is kept otherwise: {kept['schema']}, {wanted}"


async def walk(
    cluster: Cluster, seed: str, cases: int, stored: int
) -> tuple[dict[str, int], list[str]]:
    """Draw classes; return how many were taken and refused, and what does not agree."""
    counts, wrong = {"taken": 0, "refused": 0, "undeclared": 0, "stored": 0}, []
    kinds: list[tuple[int, Any, Any]] = []
    for number in range(cases):
        drawn = classes.Classes(f"{seed}-{number}")
        try:
            resource, given = drawn.kind(number, odd=number % 4 == 0)
            own = declared(kr.custom_resource(**given)(resource))
            crd = definition(own)
        except (DeclarationError, ValueError) as error:
            counts["undeclared"] += 1
            if "\n" in str(error):
                wrong.append(f"{seed}-{number}: {error}")
            continue
        why, said = [*acceptable.refusals(crd)], await refused(cluster, crd)
        counts["refused" if said else "taken"] += 1
        # An API server does not look at defaults below a map; each object would be refused there.
        below = why and all("[]" in each and " has a default " in each for each in why)
        if bool(why) != bool(said) and not (below and not said):
            wrong.append(
                f"{seed}-{number}: {why or 'taken'}, and the API server: {said or 'taken'}"
            )
        elif not said and len(kinds) < stored and number % 4:
            kinds.append((number, own, crd))
    for sentence in await asyncio.gather(*(store(cluster, seed, *kind) for kind in kinds)):
        counts["stored"] += 1
        wrong += [sentence] if sentence else []
    return counts, wrong


async def store(cluster: Cluster, seed: str, number: int, own: Any, crd: Any) -> str:
    """Create a kind and an object of it; return how the object is read otherwise, if it is."""
    rng, kind = random.Random(f"{seed}-{number}"), own.kind  # noqa: S311
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    await cluster.ask("POST", CRDS, crd)
    try:
        await cluster.serves(kind)
        conditions = await established(cluster, crd)
        if conditions.get("NonStructuralSchema") == "True":
            return f"{seed}-{number}: {conditions}"
        for name in ("a", "b", "c"):
            try:
                spec = classes.value(rng, schema)
            except LookupError:
                continue
            head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
            answer = await cluster.ask("POST", kind.path("default"), {**head, "spec": spec})
            got = msgspec.convert(answer["spec"], _spec(own))
            if got != msgspec.convert(spec, _spec(own)):
                return f"{seed}-{number}: {spec} is stored as {answer['spec']}"
    except (RefusedError, msgspec.ValidationError) as error:
        return f"{seed}-{number}: {error} of {locals().get('spec')}, {schema}"
    finally:
        await cluster.remove(f"{CRDS}/{crd['metadata']['name']}")
    return ""


async def established(cluster: Cluster, crd: Any) -> dict[str, str]:
    """Wait until a kind is established; return its conditions."""
    async with asyncio.timeout(60):
        while True:
            made = await cluster.ask("GET", f"{CRDS}/{crd['metadata']['name']}")
            conditions = {each["type"]: each["status"] for each in made["status"]["conditions"]}
            if conditions.get("Established") == "True":
                return conditions
            await asyncio.sleep(0.1)


def _spec(own: Any) -> Any:
    return next(f.type for f in msgspec.structs.fields(own.resource) if f.name == "spec")


async def test_generate_and_an_api_server_agree_on_drawn_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=80, stored=8)

    print(f"SEED={SEED}: {counts}")  # noqa: T201
    assert not wrong, f"SEED={SEED}\n" + "\n".join(wrong)
    assert min(counts.values()) > 0


@pytest.mark.long
async def test_generate_and_an_api_server_agree_on_many_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=3000, stored=200)

    assert not wrong, f"SEED={SEED} {counts}\n" + "\n".join(wrong)
