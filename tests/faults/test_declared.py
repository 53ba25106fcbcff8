"""A real API server takes the definition of whatever a class can declare, as decoding does."""

import datetime
import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

import kopf_runtime as kr
from kopf_kit.crd.generated import definition
from kopf_kit.testing.requests import Cluster, RefusedError
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.kinds import Kind

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Inner(kr.Fields, frozen=True):
    """What is inside."""

    a_size: Annotated[int, Meta(gt=0, lt=2**40)] = 3
    note: str | None = None


Ruled = Annotated[
    str,
    Meta(
        max_length=9,
        pattern="^a*$",
        extra_json_schema=kr.validations(kr.ValidationRule("self != 'aaa'", "too dear")),
    ),
]


class Member(kr.Fields, frozen=True):
    """One of several, which are told apart by their names."""

    name: str
    role: str | None = None


class Status(Inner, frozen=True):
    """What was observed."""

    members: Annotated[
        list[Member],
        Meta(
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        ),
    ] = []  # noqa: RUF012


class Spec(kr.Fields, frozen=True):
    """Everything that can be said."""

    name: Ruled
    inner: Inner = Inner()
    other: Inner | None = None
    size: Annotated[int, Meta(ge=0, le=5)] = 1
    part: Annotated[float, Meta(ge=0.5, le=1)] = 0.5
    amount: kr.Quantity = "1Gi"
    port: int | str = 80
    maybe_port: int | str | None = None
    bound_port: (
        Annotated[int, Meta(ge=1, lt=65536)]
        | Annotated[str, Meta(max_length=5, pattern="^[a-z]*$")]
    ) = "http"
    shade: Literal["light", "dark"] | None = None
    color: Literal["red", "blue"] = "red"
    names: set[str] = set()  # noqa: RUF012 (msgspec copies it)
    inners: Annotated[list[Inner], Meta(max_length=3)] = []  # noqa: RUF012
    labels: dict[str, str] = {}  # noqa: RUF012
    free: dict[str, Any] = {}  # noqa: RUF012
    anything: Any = None
    data: bytes = b"abc"
    when: Annotated[datetime.datetime, Meta(tz=True)] | None = None


@kr.custom_resource(
    "example.dev",
    "v1",
    "everythings",
    namespaced=False,
    status=Status,
    short_names=["ev"],
    categories=["things"],
    scale=kr.Scale(".spec.size", ".status.aSize", ".status.note"),
    printer_columns=[
        kr.Column("Inner", ".spec.inner.aSize"),
        kr.Column("Port", ".spec.port"),
        kr.Column("Names", ".spec.names"),
        kr.Column("When", ".spec.when"),
        kr.Column("Part", ".spec.part"),
        kr.READY,
        kr.REASON,
        kr.AGE,
    ],
    validations=[kr.ValidationRule("size(self.metadata.name) < 9", "shorter", ".metadata.name")],
)
class Everything(kr.Resource, kw_only=True):
    """Everything."""

    spec: Spec


KIND = declared(Everything).kind


async def test_what_a_class_declares_an_api_server_takes_and_keeps(cluster: Cluster) -> None:
    wanted = definition(declared(Everything))

    answer = await cluster.ask("POST", f"{CRDS}?dryRun=All", wanted)

    (kept,), (version,) = answer["spec"]["versions"], wanted["spec"]["versions"]
    assert kept["schema"] == version["schema"]
    assert kept["subresources"] == version["subresources"]


@pytest.fixture
async def everythings(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Have the kind served."""
    crd = definition(declared(Everything))
    await cluster.ask("POST", CRDS, crd)
    await cluster.serves(KIND)
    yield cluster
    await cluster.remove(f"{CRDS}/{crd['metadata']['name']}")


async def test_what_an_api_server_takes_decoding_reads_and_holds_to_the_same(
    everythings: Cluster,
) -> None:
    zoned = "2026-01-01T00:00:00.5+09:00"
    taken: list[dict[str, Any]] = [
        {},
        {"boundPort": 65535},
        {"boundPort": "https"},
        {"shade": "dark"},
        {"when": zoned},
        {"shade": None, "inner": None, "names": None},
        {"amount": 1},
        {"amount": "500m"},
        {"amount": ".5e+3"},
        {"names": ["b", "a"], "labels": {"a": "b"}, "data": "YWJj", "part": 1},
    ]
    refused: list[dict[str, Any]] = [
        {"boundPort": 0},
        {"boundPort": 65536},
        {"boundPort": "ht tp"},
        {"boundPort": "toolong"},
        {"boundPort": 1.5},
        {"shade": "pink"},
        {"when": "2026-01-01T00:00:00"},
        {"part": 0.3},
        {"amount": "-1"},
        {"amount": -1},
        {"amount": "1 Gi"},
        {"amount": "1Gib"},
    ]

    for number, fields in enumerate(taken):
        answer = await everythings.ask("POST", KIND.path(), everything(f"e{number}", fields))
        spec = msgspec.json.decode(json.dumps(answer), type=Everything).spec
        given = msgspec.convert({"name": "a", **without_null(fields)}, Spec)
        assert spec == given
    for fields in refused:
        with pytest.raises(RefusedError, match="422"):
            await everythings.ask("POST", KIND.path(), everything("refused", fields))
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"name": "a", **fields}, Spec)

    table = await everythings.ask("GET", KIND.path(), accept=TABLE)
    cells = [row["cells"] for row in table["rows"]]
    assert cells[4][:6] == ["e4", 3, "80", "[]", zoned, 0.5]
    assert cells[-1][3] == '["b","a"]'


def everything(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": {"name": "a", **fields},
    }


def without_null(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


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
