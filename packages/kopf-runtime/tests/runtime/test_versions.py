"""Several versions of a kind: what is declared, and what conversions keep."""

import asyncio
import copy
import dataclasses
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis.errors import HypothesisException
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_kit.testing.conversions import assert_lossless
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.converting.partial import Complete
from kopf_runtime.converting.versions import ConversionError, Steps, Versions
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import ApiError, DeclarationError
from kopf_runtime.endpoints.reviews import Reviews
from kopf_runtime.working import migration
from kopf_runtime.working.migration import Migration
from runtime import festivals
from runtime.festivals import Alpha, AlphaSpec, Beta, Festival
from runtime.support.waiting import in_virtual_time, now

Raw = dict[str, Any]

ALPHA, BETA, NEWEST = "example.dev/v1alpha1", "example.dev/v1beta1", "example.dev/v1"
ANNOTATION = "example.dev/conversion"


def versions() -> Versions:
    found = Versions.of(festivals.controller.declaration)
    assert found is not None
    return found


def alpha(**spec: Any) -> Raw:
    metadata = {"name": "one", "namespace": "ns", "labels": {"a": "b"}}
    return {"apiVersion": ALPHA, "kind": "Festival", "metadata": metadata, "spec": spec}


def newest(**spec: Any) -> Raw:
    return {**alpha(**spec), "apiVersion": NEWEST}


LARGE = newest(
    stages=[{"name": "main", "seats": 9000}, {"name": "tent"}], hours={"opens": "9", "closes": "5"}
)


# --- objects ------------------------------------------------------------------------------------


def test_no_version_loses_anything_on_the_way_through_another() -> None:
    assert_lossless(festivals.controller, examples=50)


def test_what_authors_check_fails_where_something_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kopf_runtime.converting.versions._restored", lambda now, _: now)
    with pytest.raises((AssertionError, ExceptionGroup, HypothesisException)):
        assert_lossless(festivals.controller, examples=50)


def test_metadata_and_status_pass_through_and_what_is_lost_is_kept_aside() -> None:
    old = versions().convert({**LARGE, "status": {"crowd": 5}}, ALPHA)
    assert old["spec"] == {"stageName": "main", "opensAt": "9"}
    assert old["status"] == {"crowd": 5}
    assert old["metadata"]["labels"] == {"a": "b"}
    assert ANNOTATION in old["metadata"]["annotations"]
    back = versions().convert(old, NEWEST)
    assert back["spec"]["stages"][0]["seats"] == 9000
    assert back["metadata"] == LARGE["metadata"]  # without the annotation


def test_an_edit_in_the_older_version_wins_over_what_was_kept() -> None:
    old = versions().convert(LARGE, ALPHA)
    old["spec"]["stageName"] = "open air"
    back = versions().convert(old, NEWEST)["spec"]
    assert back["stages"] == [{"name": "open air", "seats": 100}]
    assert back["hours"]["closes"] == "5"  # which the edit had nothing to do with


def test_an_object_without_a_required_field_keeps_lacking_it() -> None:
    """Server-side apply converts such ones between the versions of two managers."""
    partial = alpha(opensAt="7")
    del partial["metadata"]["namespace"]
    assert versions().convert(partial, NEWEST)["spec"]["hours"] == {"opens": "7"}
    no_seats = newest(hours={"opens": "8"})
    assert versions().convert(no_seats, BETA)["spec"] == {"opensAt": "8"}


def test_an_object_that_was_stored_under_wider_bounds_is_converted() -> None:
    assert (
        versions().convert(alpha(stageName="x" * 30), BETA)["spec"]["stages"][0]["name"] == "x" * 30
    )


def test_an_object_that_cannot_be_converted_is_shown_and_told_and_is_not_lost() -> None:
    poisoned = alpha(stageName="poison")
    shown = versions().convert(poisoned, NEWEST)
    why = json.loads(shown["metadata"]["annotations"][ANNOTATION])["v1alpha1"]["why"]
    assert why == (
        "Festival ns/one cannot be converted from v1alpha1 to v1: RuntimeError: no stage may be "
        "poisoned"
    )
    shown["status"] = {"crowd": 1}
    shown["metadata"]["finalizers"] = ["x"]
    back = versions().convert(shown, ALPHA)
    assert back["spec"] == {"stageName": "poison"}
    assert back["status"] == {"crowd": 1}
    assert back["metadata"] == {**poisoned["metadata"], "finalizers": ["x"]}

    shown["spec"] = {"stages": [{"name": "good"}]}
    with pytest.raises(ConversionError, match="it is shown in part; change it as v1alpha1"):
        versions().convert(shown, ALPHA)


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Versions:
    """The versions of the next release, which stores v1; some objects are stored in v1alpha1."""
    for type_, storage in ((Alpha, False), (Festival, True)):
        changed = dataclasses.replace(declared(type_), storage=storage)
        monkeypatch.setattr(type_, "__custom_resource__", changed)
    return versions()


def why_unread(raw: Raw) -> str:
    """Return why the operator does not act on an object, empty if it does."""
    raw = {**raw, "metadata": {"uid": "u", "resourceVersion": "1", **raw["metadata"]}}
    try:
        Complete(Festival, "example.dev").decode(msgspec.json.encode(raw))
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def test_what_is_stored_before_fails_no_list_and_is_stored_as_it_is_shown(moved: Versions) -> None:
    poisoned = alpha(stageName="poison")
    poisoned["metadata"]["annotations"] = {ANNOTATION: '{"v1":{"lost":{"spec":{}}}}'}
    stored = moved.convert(poisoned, NEWEST)
    assert why_unread(stored)
    assert moved.convert(stored, ALPHA) == {**poisoned, "status": {}}
    as_beta = moved.convert(stored, BETA)
    assert moved.convert(as_beta, ALPHA)["spec"] == {"stageName": "poison"}

    stored["spec"] = LARGE["spec"]  # somebody mends it as the stored version
    assert moved.convert(stored, ALPHA)["spec"] == {"stageName": "main", "opensAt": "9"}


def test_an_object_stays_unread_when_the_version_it_is_shown_for_is_gone(moved: Versions) -> None:
    stored = moved.convert(alpha(stageName="poison"), NEWEST)
    stored["spec"] = {"stages": [{"name": "a default"}]}
    assert why_unread(stored)
    del stored["metadata"]["annotations"]
    assert not why_unread(stored)


def test_a_change_of_what_is_shown_in_part_loses_neither_it_nor_the_rest(moved: Versions) -> None:
    """It cannot be refused: v1alpha1 may be how it is stored."""
    shown = alpha(stageName="a part")
    whole = {"v1": {"why": "odd", "whole": {"spec": LARGE["spec"]}}}
    shown["metadata"]["annotations"] = {ANNOTATION: json.dumps(whole)}
    both = moved.convert(shown, NEWEST)
    assert why_unread(both)
    kept = json.loads(both["metadata"]["annotations"][ANNOTATION])
    assert kept["v1"]["whole"]["spec"] == LARGE["spec"]
    assert "shown in part; change it as v1" in kept["v1alpha1"]["why"]
    again = moved.convert(both, ALPHA)
    assert again["spec"] == {"stageName": "a part"}
    assert why_unread(moved.convert(again, NEWEST))


@pytest.mark.parametrize("whole", [{}, {"spec": {"stageName": "x"}}, 7, None])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
def test_a_claim_to_be_shown_in_part_hides_nothing_stored(whole: Any, version: str) -> None:
    forged = alpha(stageName="main", opensAt="9")
    forged["metadata"]["annotations"] = {ANNOTATION: json.dumps({version: {"whole": whole}})}
    there = versions().convert(forged, NEWEST)
    assert there["spec"]["stages"] == [{"name": "main", "seats": 100}]
    assert not why_unread(there)
    back = versions().convert(there, ALPHA)
    assert back["spec"] == forged["spec"]


@pytest.mark.parametrize("whole", [{}, {"spec": {"stageName": "x"}}, 7, None])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1", "v0"])
def test_a_claim_of_the_stored_version_s_hits_its_own_object_alone(
    moved: Versions, whole: Any, version: str
) -> None:
    forged = copy.deepcopy(LARGE)
    forged["metadata"]["annotations"] = {ANNOTATION: json.dumps({version: {"whole": whole}})}
    assert moved.convert(forged, ALPHA)["spec"] == {"stageName": "main", "opensAt": "9"}
    told = f"its annotation {ANNOTATION} says that it is shown in part; remove that if it is comp"
    assert why_unread(forged).startswith(told)


@pytest.mark.parametrize(
    "kept",
    [
        {"v1": {"lost": {"spec": {"stages": [[[{"name": "main", "seats": 100}]], [[]]]}}}},
        {"v1": {"lost": {"spec": {"stages": [[[{"name": "main", "seats": 100}]], []]}}}},
        {"v1": {"lost": {"spec": 1}}},
        {"v1": {"lost": {"spec": {"stages": "ab"}}}},
        {"v1": {"lost": []}},
        {"v1": 1},
        {"v7": {"whole": {}}},
        [],
    ],
)
def test_an_annotation_that_somebody_else_wrote_brings_nothing_invalid(kept: Any) -> None:
    raw = alpha(stageName="main")
    raw["metadata"]["annotations"] = {ANNOTATION: json.dumps(kept)}
    made = versions().convert(raw, NEWEST)
    assert made["spec"]["stages"] == [{"name": "main", "seats": 100}]


@pytest.mark.parametrize("has", [{}, {"holds": {"stage": ["main"]}}])
def test_a2_an_annotation_that_somebody_else_wrote_gives_no_unique_value(has: Raw) -> None:
    raw = alpha(stageName="main") | {"status": has}
    lost = {"status": {"holds": [[*has.values()], [{"stage": ["another's"]}]]}}
    raw["metadata"]["annotations"] = {ANNOTATION: json.dumps({"v1": {"lost": lost}})}
    steps = dict(festivals.controller.declaration.conversions)
    assert Versions(Festival, steps, holds=True).convert(raw, NEWEST).get("status", {}) == has


def test_an_annotation_that_claims_a_whole_object_brings_nothing_invalid() -> None:
    raw = newest(stages=[{"name": "main"}])
    whole = {"whole": {"spec": {"stageName": ""}}}
    raw["metadata"]["annotations"] = {ANNOTATION: json.dumps({"v1alpha1": whole})}
    with pytest.raises(ConversionError):
        versions().convert(raw, ALPHA)


def _returns(made: Callable[[Beta], Any]) -> Steps:
    steps = dict(festivals.controller.declaration.conversions)
    steps[Beta, Alpha] = made
    return steps


@pytest.mark.parametrize(
    ("convert", "told"),
    [
        (lambda new: None, "returned NoneType, not Alpha"),
        (lambda new: new, "returned Beta, not Alpha"),
        (lambda new: Alpha(metadata=new.metadata, spec=AlphaSpec("")), "invalid in v1alpha1: Exp"),
        (lambda new: Alpha(metadata=new.metadata, spec=new.spec), "invalid in v1alpha1: Object"),
        (
            lambda new: Alpha(metadata=replace(new.metadata, name="other"), spec=AlphaSpec("a")),
            "changed the metadata; pass it on as it is",
        ),
        (lambda new: new.spec.nothing, "AttributeError: 'BetaSpec"),
    ],
)
def test_a_converter_that_returns_nonsense_fails(convert: Callable[[Beta], Any], told: str) -> None:
    with pytest.raises(ConversionError, match=f"Festival ns/one cannot be converted.*{told}"):
        Versions(Festival, _returns(convert)).convert(LARGE, ALPHA)


def test_an_object_of_no_version_is_refused() -> None:
    for odd in ("example.dev/v9", "v1", "other.dev/v1"):
        with pytest.raises(ConversionError, match=f"'{odd}' is not one of v1, v1alpha1, v1beta1"):
            versions().convert({**LARGE, "apiVersion": odd}, ALPHA)


@pytest.mark.parametrize("odd", [5, None, {"name": 3}, {"annotations": 7}])
def test_an_object_with_metadata_that_no_api_server_sends_is_refused(odd: Any) -> None:
    with pytest.raises(ConversionError, match="cannot be read: Expected"):
        versions().convert({**LARGE, "metadata": odd}, ALPHA)


# --- declarations -------------------------------------------------------------------------------


def a_version(name: str, kind: str = "Festival", **options: Any) -> type[kr.Resource]:
    @kr.custom_resource("example.dev", name, "festivals", kind=kind, **options)
    class Version(kr.Resource):
        """A version."""

    return Version


def both(first: type[kr.Resource], *others: type[kr.Resource]) -> Steps:
    return {pair: copy.copy for other in others for pair in ((first, other), (other, first))}


OLD, NEW, NEWER = a_version("v1"), a_version("v2"), a_version("v3")
STORED = a_version("v4", storage=True)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({(OLD, STORED): copy.copy}, "nothing converts Festival from v4 back to v1; register that"),
        (both(OLD, NEW), "0 of the versions v1, v2 of Festival are stored; put storage=True on"),
        (
            both(OLD, STORED, a_version("v5", storage=True)),
            "2 of the versions v1, v4, v5 of Festival are stored",
        ),
        (
            both(OLD, a_version("v5", storage=True, served=False)),
            "v5 of Festival is stored, but not served, so nobody could rewrite",
        ),
        (
            {**both(OLD, NEW, STORED), **both(NEW, STORED)},
            r"the converters of Festival are a circle \(v1, v2, v4\); leave out those",
        ),
        (both(NEW, STORED), "no functions lead from v1 of Festival to v2; register them"),
        (both(OLD, a_version("v1", storage=True)), "are both example.dev/v1; give one another"),
        (both(OLD, a_version("v6", kind="Fair")), "Fair .* is not a version of Festival"),
    ],
)
def test_versions_that_do_not_belong_together_are_refused(steps: Steps, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        Versions(OLD, steps)


def test_versions_of_the_same_fields_are_converted_and_nothing_is_kept_aside() -> None:
    steps: Steps = {
        (OLD, STORED): lambda old: STORED(metadata=old.metadata),
        (STORED, OLD): lambda new: OLD(metadata=new.metadata),
    }
    metadata = {"name": "one", "namespace": "ns", "labels": {"a": "b"}}
    raw = {"apiVersion": "example.dev/v1", "kind": "Festival", "metadata": metadata}
    new = Versions(OLD, steps).convert(raw, "example.dev/v4")
    assert (new["apiVersion"], new["metadata"]) == ("example.dev/v4", metadata)


def test_the_version_that_a_controller_reads_is_served() -> None:
    gone = a_version("v0", served=False)
    with pytest.raises(DeclarationError, match="v0 of Festival is not served, but its controller"):
        Versions(gone, both(gone, STORED))


def test_a_converter_is_registered_once_and_is_no_coroutine() -> None:
    controller = kr.Manager("fair-operator", kr.Settings).controller_for(Festival)
    assert Versions.of(controller.declaration) is None

    async def up(_: Alpha) -> Beta: ...  # type: ignore[empty-body]

    with pytest.raises(TypeError, match="up must not be a coroutine function: write `def up`"):
        controller.convert(Alpha, Beta)(up)  # type: ignore[arg-type]
    controller.convert(Alpha, Beta)(festivals.several)
    with pytest.raises(ValueError, match=r"convert\(Alpha, Beta\) is registered already"):
        controller.convert(Alpha, Beta)
    with pytest.raises(TypeError, match="Resource is not declared as a kind"):
        controller.convert(Alpha, kr.Resource)


# --- reviews ------------------------------------------------------------------------------------


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    application = web.Application()
    application.add_routes(Reviews([versions()]).routes)
    async with TestClient(TestServer(application)) as one:
        yield one


async def asked(client: TestClient[Any, Any], *objects: Raw, desired: str = NEWEST) -> Raw:
    request = {"uid": "u", "desiredAPIVersion": desired, "objects": [*objects]}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    async with client.post("/convert", json={**review, "request": request}) as answer:
        found: Raw = await answer.json(content_type="application/json")
    assert {**found, "response": None} == {**review, "response": None}
    assert found["response"]["uid"] == "u"
    response: Raw = found["response"]
    return response


async def test_a_review_is_answered_in_its_order(client: TestClient[Any, Any]) -> None:
    names = [f"stage {number}" for number in range(20)]
    response = await asked(client, *(alpha(stageName=name) for name in names))
    made = response["convertedObjects"]
    assert [converted["spec"]["stages"][0]["name"] for converted in made] == names
    assert response["result"] == {"status": "Success"}


async def test_what_cannot_be_converted_is_answered_in_words(client: TestClient[Any, Any]) -> None:
    response = await asked(client, newest(stages=7), desired=ALPHA)
    assert response["result"]["status"] == "Failure"
    assert (
        "Festival ns/one cannot be converted from v1 to v1alpha1" in response["result"]["message"]
    )
    assert "convertedObjects" not in response
    response = await asked(client, {"apiVersion": "v1", "kind": "Pod"})
    assert response["result"]["message"] == "v1 Pod is not a kind that this operator converts"


async def test_what_is_no_review_is_refused(client: TestClient[Any, Any]) -> None:
    for body in (b"{", b"[]", b"[" * 5000, b'{"apiVersion": "v1", "request": {}}'):
        async with client.post("/convert", data=body) as answer:
            assert answer.status == 400
            assert "This is not a review" in await answer.text()


# --- what is stored in a former version is rewritten at its pace, whatever the API server answers


VERSIONS = Versions.of(festivals.controller.declaration)


class Server:
    """An API server with a number of Festivals."""

    def __init__(self, number: int) -> None:
        self.objects = [{"name": f"f-{n}"} for n in range(number)]
        self.stored = ["v1alpha1", "v1"]
        #: When each object was written.
        self.writes: list[tuple[str, float]] = []
        #: What befalls a write: an error, or seconds.
        self.faults: dict[str, ApiError | float] = {}
        self.listing: ApiError | None = None

    async def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if method == "PATCH":
            assert path.endswith("/status")
            self.stored = body["status"]["storedVersions"]
        versions = [{"name": "v1alpha1", "storage": False}, {"name": "v1", "storage": True}]
        metadata = {"generation": 1, "resourceVersion": "1"}
        status = {"storedVersions": self.stored}
        return {"metadata": metadata, "spec": {"versions": versions}, "status": status}

    async def request(self, method: str, path: str, _: Any = None, **__: Any) -> bytes:
        name = path.rpartition("/")[2]
        if name == "festivals":
            if self.listing:
                raise self.listing
            items = [{"metadata": {"namespace": "ns", **metadata}} for metadata in self.objects]
            return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})
        if method == "GET":
            return b"{}"
        self.writes.append((name, now()))
        if isinstance(fault := self.faults.pop(name, 0.0), ApiError):
            raise fault
        await asyncio.sleep(fault)
        return b"{}"


async def migrated(server: Server, seconds: float) -> dict[str, float]:
    """Migrate for some time; return what the metrics say then, by name."""
    metrics = Metrics("festival-operator")
    task = asyncio.create_task(Migration(server, [VERSIONS], metrics).run())  # type: ignore[arg-type, list-item]
    await asyncio.sleep(seconds)
    found = {
        name: metrics.registry.get_sample_value(
            f"festival_operator_storage_migrator_{name}", {"resource": "festivals"}
        )
        or 0.0
        for name in ("migrated_objects_total", "remaining_objects")
    }
    task.cancel()
    return found


@in_virtual_time
async def test_no_second_has_more_writes_than_it_may_after_the_api_server_was_slow() -> None:
    server = Server(500)
    server.faults["f-50"] = 3.0

    found = await migrated(server, 60)

    assert found == {"migrated_objects_total": 500, "remaining_objects": 0}
    assert server.stored == ["v1"]
    assert max(Counter(int(when) for _, when in server.writes).values()) <= migration.RATE + 1


@pytest.mark.parametrize("status", [403, 404, 422])
def test_what_a_webhook_refuses_with_any_status_is_told_and_tried_again(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def test() -> None:
        server = Server(3)
        server.faults["f-1"] = ApiError("PATCH", "f-1", status, "NotFound", "a webhook said no")
        with caplog.at_level(logging.WARNING):
            found = await migrated(server, migration.CRD_SETTLES + 0.5)
        assert found == {"migrated_objects_total": 2, "remaining_objects": 1}
        assert "v1alpha1" in server.stored
        assert "ns/f-1 cannot be rewritten" in caplog.text
        await migrated(server, 100)
        assert server.stored == ["v1"]

    test()


@in_virtual_time
async def test_a_list_that_is_not_served_ends_nothing() -> None:
    server = Server(3)
    server.listing = ApiError("GET", "festivals", 404, "NotFound", "page not found")
    task = asyncio.create_task(migrated(server, 200))
    await asyncio.sleep(migration.CRD_SETTLES + 1)
    server.listing = None
    await task

    assert server.stored == ["v1"]
