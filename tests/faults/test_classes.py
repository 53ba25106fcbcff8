"""What `generate` takes, a real API server takes, stores and gives back; what it refuses, too.

The variable SEED repeats a walk.
"""

import asyncio
import copy
import json
import os
import random
from typing import Any

import msgspec
import pytest

import kopf_runtime as kr
from kopf_kit.crd import acceptable, upgrades
from kopf_kit.crd.generated import definition
from kopf_kit.crd.structural import DeclarationError
from kopf_kit.testing.requests import Cluster, RefusedError
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.kinds import Kind
from tests.faults import classes

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SEED = os.environ.get("SEED") or str(random.randrange(10**6))  # noqa: S311


async def refused(cluster: Cluster, crd: Any) -> str:
    """Return why an API server refuses a CRD, or nothing; what it takes, it keeps as it is."""
    try:
        answer = await cluster.ask("POST", f"{CRDS}?dryRun=All", crd)
    except RefusedError as error:
        return str(error)
    wanted, kept = ([v["schema"] for v in each["spec"]["versions"]] for each in (crd, answer))
    return "" if kept == wanted else f"it is kept otherwise: {kept}, {wanted}"


def reasons(cluster: Cluster, crd: Any) -> list[str]:
    """Return why `generate` refuses a CRD; it asks this API server what rules cost."""
    read = [*acceptable.refusals(crd)]
    return read or acceptable.asked(cluster.plane.server, json.dumps(crd))


async def walk(
    cluster: Cluster, seed: str, cases: int, stored: int
) -> tuple[dict[str, int], list[str]]:
    """Draw classes; return how many were taken and refused, and what does not agree."""
    counts, wrong = {"taken": 0, "refused": 0, "undeclared": 0, "stored": 0}, []
    kinds: list[tuple[int, Any, Any]] = []
    for number in range(cases):
        drawn = classes.Classes(f"{seed}-{number}")
        try:
            versions = drawn.versions(number, odd=number % 4 == 0)
            own, *others = [
                declared(kr.custom_resource(**given)(type_)) for type_, given in versions
            ]
            crd = definition(own, *others)
        except (DeclarationError, ValueError) as error:
            counts["undeclared"] += 1
            if "\n" in str(error):
                wrong.append(f"{seed}-{number}: {error}")
            continue
        why, said = await asyncio.to_thread(reasons, cluster, crd), await refused(cluster, crd)
        counts["refused" if said else "taken"] += 1
        # An API server does not look at defaults below a map; each object would be refused there.
        below = why and all("[]" in each and " has a default " in each for each in why)
        if bool(why) != bool(said) and not (below and not said):
            wrong.append(
                f"{seed}-{number}: {why or 'taken'}, and the API server: {said or 'taken'}"
            )
        elif not said and len(kinds) < stored and number % 4 and not others:
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


async def change(cluster: Cluster, seed: str, number: int) -> str:
    """Change a kind; return what `verify` lets pass although a stored object is then refused."""
    drawn = classes.Classes(f"{seed}-{number}")
    try:
        resource, given = drawn.kind(number, odd=False)
        crd = definition(declared(kr.custom_resource(**given)(resource)))
    except (DeclarationError, ValueError):
        return ""
    changed = copy.deepcopy(crd)
    for each, prefix in ((crd, "old"), (changed, "new")):
        names, group = each["spec"]["names"], f"{prefix}.example.dev"
        each["spec"]["group"], each["metadata"]["name"] = group, f"{names['plural']}.{group}"
    here = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    before = here["spec"]
    here["spec"] = classes.altered(drawn.rng, before)
    if [*upgrades.unsafe(crd, changed)] or not await _both(cluster, crd, changed):
        return ""
    try:
        for name in ("a", "b", "c"):
            spec = classes.value(drawn.rng, before)
            bodies = [
                {
                    "apiVersion": f"{each['spec']['group']}/v1",
                    "kind": each["spec"]["names"]["kind"],
                    "metadata": {"name": name},
                    "spec": spec,
                }
                for each in (crd, changed)
            ]
            paths = [
                f"/apis/{body['apiVersion']}/namespaces/default/{crd['spec']['names']['plural']}"
                for body in bodies
            ]
            bodies[1]["spec"] = (await cluster.ask("POST", paths[0], bodies[0]))["spec"]
            try:
                await cluster.ask("POST", paths[1], bodies[1])
            except RefusedError as error:
                return f"{seed}-{number}: {error} of {spec}: {before}, {here['spec']}"
    except (LookupError, RefusedError):  # no value is known that the former kind takes
        return ""
    finally:
        for each in (crd, changed):
            await cluster.remove(f"{CRDS}/{each['metadata']['name']}")
    return "kept"


async def _both(cluster: Cluster, *crds: Any) -> bool:
    """Create kinds if all of them are taken; return whether they are."""
    if any([await refused(cluster, crd) for crd in crds]):
        return False
    for crd in crds:
        await cluster.ask("POST", CRDS, crd)
    for crd in crds:
        await established(cluster, crd)
        await cluster.serves(
            Kind(crd["spec"]["group"], "v1", crd["spec"]["names"]["plural"], "", True)
        )
    return True


async def changes(cluster: Cluster, seed: str, cases: int) -> tuple[int, list[str]]:
    """Return how many changed kinds kept their objects, and what `verify` lets pass wrongly."""
    told = list[str]()
    for start in range(0, cases, 16):
        part = range(start, min(start + 16, cases))
        told += await asyncio.gather(*(change(cluster, seed, number) for number in part))
    return told.count("kept"), [each for each in told if each not in ("", "kept")]


async def established(cluster: Cluster, crd: Any) -> dict[str, str]:
    """Wait until a kind is established; return its conditions."""
    async with asyncio.timeout(60):
        while True:
            made = await cluster.ask("GET", f"{CRDS}/{crd['metadata']['name']}")
            conditions = {
                each["type"]: each["status"] for each in made["status"]["conditions"] or ()
            }
            if conditions.get("Established") == "True":
                return conditions
            await asyncio.sleep(0.1)


def _spec(own: Any) -> Any:
    return next(f.type for f in msgspec.structs.fields(own.resource) if f.name == "spec")


async def test_generate_and_an_api_server_agree_on_drawn_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=60, stored=6)

    print(f"SEED={SEED}: {counts}")  # noqa: T201
    assert not wrong, f"SEED={SEED}\n" + "\n".join(wrong)
    assert min(counts.values()) > 0


async def test_what_verify_lets_pass_keeps_each_stored_object(cluster: Cluster) -> None:
    kept, wrong = await changes(cluster, SEED, cases=32)

    print(f"SEED={SEED}: {kept} kept")  # noqa: T201
    assert not wrong, f"SEED={SEED}\n" + "\n".join(wrong)
    assert kept > 0


@pytest.mark.long
async def test_what_verify_lets_pass_keeps_each_object_of_many_kinds(cluster: Cluster) -> None:
    kept, wrong = await changes(cluster, SEED, cases=1000)

    assert not wrong, f"SEED={SEED} {kept} kept\n" + "\n".join(wrong)


@pytest.mark.long
async def test_generate_and_an_api_server_agree_on_many_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=3000, stored=200)

    assert not wrong, f"SEED={SEED} {counts}\n" + "\n".join(wrong)
