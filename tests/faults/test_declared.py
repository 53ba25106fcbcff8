"""A real API server takes the definition of whatever a class can declare."""

import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

import kopf_runtime as kr
from hack.pack.crds import definition
from kopf_runtime.declaration import declared
from tests.support.faults.cluster import Cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Inner(kr.Fields, frozen=True):
    """What is inside."""

    a_size: Annotated[int, Meta(gt=0, lt=2**40)] = 3
    note: str | None = None


Ruled = Annotated[str, Meta(
    max_length=9, pattern="^a*$", extra_json_schema=kr.rules(kr.Rule("self != 'aaa'", "too dear"))
)]  # fmt: skip


class Spec(kr.Fields, frozen=True):
    """Everything that can be said."""

    name: Ruled
    inner: Inner = Inner()
    other: Inner | None = None
    size: Annotated[int, Meta(ge=0, le=5)] = 1
    part: Annotated[float, Meta(ge=0, multiple_of=0.5)] = 0.5
    port: int | str = 80
    maybe_port: int | str | None = None
    color: Literal["red", "blue"] = "red"
    names: set[str] = set()  # noqa: RUF012 (msgspec copies it)
    inners: Annotated[list[Inner], Meta(max_length=3)] = []  # noqa: RUF012
    labels: dict[str, str] = {}  # noqa: RUF012
    free: dict[str, Any] = {}  # noqa: RUF012
    anything: Any = None
    data: bytes = b"abc"
    when: Annotated[datetime.datetime, Meta(tz=True)] | None = None


@kr.custom_resource(
    "example.dev", "v1", "everythings", namespaced=False, status=Inner, short_names=["ev"],
    categories=["things"], scale=kr.Scale(".spec.size", ".status.aSize", ".status.note"),
    columns=[kr.Column("Inner", ".spec.inner.aSize"), kr.READY, kr.REASON, kr.AGE],
    rules=[kr.Rule("size(self.metadata.name) < 9", "shorter", ".metadata.name")],
)  # fmt: skip
class Everything(kr.Resource, kw_only=True):
    """Everything."""

    spec: Spec


async def test_what_a_class_declares_an_api_server_takes_and_keeps(cluster: Cluster) -> None:
    wanted = definition(declared(Everything))

    answer = await cluster.ask("POST", f"{CRDS}?dryRun=All", wanted)

    (kept,), (version,) = answer["spec"]["versions"], wanted["spec"]["versions"]
    assert kept["schema"] == version["schema"]
    assert kept["subresources"] == version["subresources"]
    reasons = [one for one in answer["status"]["conditions"] or () if one["status"] == "False"]
    assert not [one for one in reasons if one["type"] == "NonStructuralSchema"]
