"""What `generate` takes, a real API server takes, stores and gives back; what it refuses, too.

The variable SEED repeats a walk.
"""

import asyncio
import contextlib
import copy
import datetime
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

import kopf_runtime as kr
from api import classes
from kopf_kit.crd import acceptable, upgrades
from kopf_kit.crd.generated import definition
from kopf_kit.crd.structural import DeclarationError
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing import api_server
from kopf_kit.testing.requests import Cluster, RefusedError, connected
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.kinds import Kind

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KEPT = ("schema", "additionalPrinterColumns", "subresources")
SEED = os.environ.get("SEED") or "67"  # each night draws others


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with api_server.running() as one:
        yield one


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as one:
        yield one


async def refused(cluster: Cluster, crd: Any) -> str:
    """Return why an API server refuses a CRD, or nothing; what it takes, it keeps as it is."""
    try:
        answer = await cluster.ask("POST", f"{CRDS}?dryRun=All", crd)
    except RefusedError as error:
        return str(error)
    wanted, kept = (
        [[v.get(part) or {} for part in _KEPT] for v in each["spec"]["versions"]]
        for each in (crd, answer)
    )
    return "" if kept == wanted else f"it is kept otherwise: {kept}, {wanted}"


def reasons(cluster: Cluster, crd: Any) -> list[str]:
    """Return why `generate` refuses a CRD; of one with rules, it asks this API server the cost."""
    read, text = [*acceptable.refusals(crd)], json.dumps(crd)
    ruled = "x-kubernetes-validations" in text
    return acceptable.asked(cluster.plane.server, text) if ruled and not read else read


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


@contextlib.asynccontextmanager
async def served(cluster: Cluster, crd: Any, kind: Kind) -> AsyncIterator[dict[str, str]]:
    """Create a kind, have it served with its conditions, and remove it."""
    await cluster.ask("POST", CRDS, crd)
    try:
        await cluster.serves(kind)
        yield await established(cluster, crd)
    finally:
        await cluster.remove(f"{CRDS}/{crd['metadata']['name']}")


def body(kind: Kind, name: str, spec: Any, version: str = "v1") -> dict[str, Any]:
    head = {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind}
    return {**head, "metadata": {"name": name}, "spec": spec}


async def store(cluster: Cluster, seed: str, number: int, own: Any, crd: Any) -> str:
    """Create a kind and an object of it; return how the object is read otherwise, if it is."""
    rng, kind = random.Random(f"{seed}-{number}"), own.kind  # noqa: S311
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    type_ = next(f.type for f in msgspec.structs.fields(own.resource) if f.name == "spec")
    spec: Any = None
    try:
        async with served(cluster, crd, kind) as conditions:
            if conditions.get("NonStructuralSchema") == "True":
                return f"{seed}-{number}: {conditions}"
            for name in ("a", "b", "c"):
                with contextlib.suppress(LookupError):
                    spec = classes.value(rng, schema)
                    answer = await cluster.ask("POST", kind.path("default"), body(kind, name, spec))
                    got = msgspec.convert(answer["spec"], type_)
                    if got != msgspec.convert(spec, type_):
                        return f"{seed}-{number}: {spec} is stored as {answer['spec']}"
    except (RefusedError, msgspec.ValidationError) as error:
        ruled = "x-kubernetes-validations" in str(schema)  # a drawn value may break a rule
        scaled = "should be a non-negative integer" in str(error)  # as of any scale
        return "" if ruled or scaled else f"{seed}-{number}: {error} of {spec}, {schema}"
    return ""


async def change(cluster: Cluster, seed: str, number: int, tries: int = 16) -> tuple[int, str]:
    """Change a kind in several ways, of which each is a further version.

    Return how many `verify` lets pass, and what is wrong with them: an object, as its user wrote
    it and as it is stored, is refused, or means something else.
    """
    drawn = classes.Classes(f"{seed}-{number}")
    try:
        resource, given = drawn.kind(number, odd=False)
        own = declared(kr.custom_resource(**given)(resource))
        crd = definition(own)
    except (DeclarationError, ValueError):
        return 0, ""
    spec, versions = crd["spec"], [*crd["spec"]["versions"]]
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for _ in range(tries):
        after = copy.deepcopy(versions[0]) | {"name": f"v{len(versions) + 1}", "storage": False}
        fields = after["schema"]["openAPIV3Schema"]["properties"]
        fields["spec"] = classes.altered(drawn.rng, schema)
        present = crd | {"spec": spec | {"versions": [after | {"name": "v1"}]}}
        both = crd | {"spec": spec | {"versions": [versions[0], after]}}
        if not [*upgrades.unsafe(crd, present)] and not await refused(cluster, both):
            versions.append(after)
    # A value may break a rule of the former kind, or none may be known that it takes.
    with contextlib.suppress(LookupError, RefusedError):
        async with served(cluster, crd | {"spec": spec | {"versions": versions}}, own.kind):
            for name in ("a", "b", "c"):
                value = classes.value(drawn.rng, schema)
                path = f"{own.kind.path('default')}?dryRun=All"
                kept = (await cluster.ask("POST", path, body(own.kind, name, value)))["spec"]
                for after in versions[1:]:
                    for wanted in (value, kept):
                        newer = body(own.kind, name, wanted, after["name"])
                        path_of = path.replace("/v1/", f"/{after['name']}/")
                        if (got := await outcome(cluster, path_of, newer)) != kept:
                            then = after["schema"]["openAPIV3Schema"]["properties"]["spec"]
                            told = f"{wanted}, stored as {kept}, becomes {got}: {schema}, {then}"
                            return len(versions) - 1, f"{seed}-{number}: {told}"
    return len(versions) - 1, ""


async def outcome(cluster: Cluster, path: str, manifest: dict[str, Any]) -> Any:
    """Return the spec that is stored, or why the object is refused."""
    try:
        return (await cluster.ask("POST", path, manifest))["spec"]
    except RefusedError as error:
        return str(error)


async def changes(cluster: Cluster, seed: str, cases: int) -> tuple[int, list[str]]:
    """Return how many changes kept their objects, and what `verify` lets pass wrongly."""
    told = list[tuple[int, str]]()
    for start in range(0, cases, 16):
        part = range(start, min(start + 16, cases))
        told += await asyncio.gather(*(change(cluster, seed, number) for number in part))
    return sum(count for count, _ in told), [wrong for _, wrong in told if wrong]


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


async def test_generate_and_an_api_server_agree_on_drawn_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=60, stored=6)

    print(f"SEED={SEED}: {counts}")
    assert not wrong, f"SEED={SEED}\n" + "\n".join(wrong)
    assert min(counts.values()) > 0


async def test_what_verify_lets_pass_keeps_each_stored_object(cluster: Cluster) -> None:
    kept, wrong = await changes(cluster, SEED, cases=24)

    print(f"SEED={SEED}: {kept} kept")
    assert not wrong, f"SEED={SEED}\n" + "\n".join(wrong)
    assert kept > 0


@pytest.mark.long
async def test_what_verify_lets_pass_keeps_each_object_of_many_kinds(cluster: Cluster) -> None:
    kept, wrong = await changes(cluster, SEED, cases=500)

    assert not wrong, f"SEED={SEED} {kept} kept\n" + "\n".join(wrong)


@pytest.mark.long
async def test_generate_and_an_api_server_agree_on_many_classes(cluster: Cluster) -> None:
    counts, wrong = await walk(cluster, SEED, cases=3000, stored=200)

    assert not wrong, f"SEED={SEED} {counts}\n" + "\n".join(wrong)


# --- what each side makes of values ---------------------------------------------------------------


class Inner(kr.Fields, frozen=True):
    """What is inside."""

    a_size: Annotated[int, Meta(gt=0, lt=2**40)] = 3


class Spec(kr.Fields, frozen=True):
    """Types whose values the API server and decoding have to take alike."""

    inner: Inner = Inner()
    part: Annotated[float, Meta(ge=0.5, le=1)] = 0.5
    amount: kr.Quantity = "1Gi"
    port: int | str = 80
    bound_port: (
        Annotated[int, Meta(ge=1, lt=65536)]
        | Annotated[str, Meta(max_length=5, pattern="^[a-z]*$")]
    ) = "http"
    shade: Literal["light", "dark"] | None = None
    names: set[str] = set()  # noqa: RUF012 (msgspec copies it)
    labels: dict[str, str] = {}  # noqa: RUF012
    data: bytes = b"abc"
    when: Annotated[datetime.datetime, Meta(tz=True)] | None = None


@kr.custom_resource(
    "example.dev",
    "v1",
    "everythings",
    namespaced=False,
    printer_columns=[
        kr.Column("Inner", ".spec.inner.aSize"),
        kr.Column("Port", ".spec.port"),
        kr.Column("Names", ".spec.names"),
        kr.Column("When", ".spec.when"),
        kr.Column("Part", ".spec.part"),
    ],
)
class Everything(kr.Resource, kw_only=True):
    """Everything."""

    spec: Spec = Spec()


ZONED = "2026-01-01T00:00:00.5+09:00"
TAKEN: list[dict[str, Any]] = [
    {},
    {"boundPort": 65535},
    {"boundPort": "https"},
    {"shade": "dark"},
    {"when": ZONED},
    {"shade": None, "inner": None, "names": None},
    {"amount": 1},
    {"amount": "500m"},
    {"amount": ".5e+3"},
    {"names": ["b", "a"], "labels": {"a": "b"}, "data": "YWJj", "part": 1},
]
REFUSED: list[dict[str, Any]] = [
    *({"boundPort": value} for value in (0, 65536, "ht tp", "toolong", 1.5)),
    *({"amount": value} for value in ("-1", -1, "1 Gi", "1Gib")),
    {"shade": "pink"},
    {"when": "2026-01-01T00:00:00"},
    {"part": 0.3},
]


async def test_an_api_server_and_decoding_take_and_refuse_the_same_values(cluster: Cluster) -> None:
    own = declared(Everything)
    path = own.kind.path()

    async with served(cluster, definition(own), own.kind):
        for number, fields in enumerate(TAKEN):
            answer = await cluster.ask("POST", path, body(own.kind, f"e{number}", fields))
            given = {name: value for name, value in fields.items() if value is not None}
            assert msgspec.convert(answer["spec"], Spec) == msgspec.convert(given, Spec)
        for fields in REFUSED:
            with pytest.raises(RefusedError, match="422"):
                await cluster.ask("POST", path, body(own.kind, "refused", fields))
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert(fields, Spec)
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        rows = (await cluster.ask("GET", path, accept=table))["rows"]

    assert rows[4]["cells"][:6] == ["e4", 3, "80", "[]", ZONED, 0.5]
    assert rows[-1]["cells"][3] == '["b","a"]'


async def test_kr_kinds_are_built_in_kinds(cluster: Cluster) -> None:
    """What `kubectl api-resources --verbs=list` shows of the built-in groups."""
    groups = (await cluster.ask("GET", "/apis"))["groups"]
    stable = {
        f"/apis/{group['preferredVersion']['groupVersion']}": group["name"]
        for group in groups
        if group["name"].endswith(".k8s.io") or "." not in group["name"]
        if re.fullmatch("v[0-9]+", group["preferredVersion"]["version"])
    }
    served = {
        Kind(group, path.rpartition("/")[2], entry["name"], entry["kind"], entry["namespaced"])
        for path, group in {"/api/v1": "", **stable}.items()
        for entry in (await cluster.ask("GET", path))["resources"]
        if "list" in entry["verbs"] and "/" not in entry["name"]
    }
    ours = {kind for kind in vars(kr.kinds).values() if isinstance(kind, Kind)}

    assert ours - served == set()
