"""Admission: what is declared, and what the API server is answered."""

import asyncio
import base64
import json
import logging
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_kit.testing.process import free_port
from kopf_runtime.endpoints import reviews
from kopf_runtime.endpoints.reviews import Reviews
from runtime import festivals
from runtime.festivals import Festival

# --- what is declared -----------------------------------------------------------------------------


def test_the_kit_reads_what_is_declared() -> None:
    defaulting, names, slow = festivals.manager.webhooks

    assert (defaulting.kind, defaulting.operations) == ("mutating", ("CREATE",))
    assert defaulting.path == "/mutate/festivals.example.dev/tidy"
    assert (names.kind, names.name) == ("validating", "fair-names.festivals.example.dev")
    assert (names.group, names.versions, names.resource) == ("example.dev", ("v1",), "festivals")
    assert names.operations == ("CREATE", "UPDATE", "DELETE")
    assert (names.failure_policy, slow.failure_policy) == ("Fail", "Ignore")
    assert "kube-system" in names.match_conditions["not-the-control-plane"]
    assert list(slow.match_conditions) == ["not-the-control-plane", "asked"]
    assert names.timeout_seconds == 10  # five for the function


def accepts(_: Any, __: Any) -> None: ...


async def yields(_: Any, __: Any) -> AsyncIterator[str]:
    yield "no"


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda c: c.validate(on=())(accepts), r"on=\(\): use a tuple of create, update, delete"),
        (lambda c: c.validate(on="create")(accepts), "on='create': use a tuple of create"),
        (lambda c: c.default(on=("delete",))(accepts), "use a tuple of create, update$"),
        (lambda c: c.validate(failure_policy="Fail")(accepts), "use 'fail' or 'ignore'"),
        (lambda c: c.validate(timeout=30)(accepts), "more than 0 and at most 25 seconds"),
        (lambda c: c.validate(match={"A B": "true"})(accepts), "use a name and an expression"),
        (lambda c: c.validate(namespaces={"a": "b c"})(accepts), "is not a label of a namespace"),
        (lambda c: c.validate()(yields), "return the warnings, or yield them in `def`"),
        (lambda c: c.validate()(lambda *_: None), "call the function after what it checks"),
        (lambda c: [c.validate()(accepts) for _ in "ab"], "another function is the webhook accept"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    declare: Callable[[kr.Controller], object], told: str
) -> None:
    controller = kr.Manager("o", kr.Settings).controller_for(Festival)
    with pytest.raises((TypeError, ValueError), match=told):
        declare(controller)
    controller.validate(namespaces={"a": "b"})(test_the_kit_reads_what_is_declared)
    assert controller.webhooks[-1].namespace_selector == {"matchLabels": {"a": "b"}}


# --- what is answered -----------------------------------------------------------------------------

Raw = dict[str, Any]
Client = TestClient[Any, Any]


async def serving(controller: Any = festivals.controller) -> AsyncIterator[Client]:
    application = web.Application()
    application.add_routes(Reviews([], festivals.admit(controller)).routes)
    async with TestClient(TestServer(application)) as one:
        yield one


client = pytest.fixture(serving, name="client")


def festival(*stages: str, **spec: Any) -> Raw:
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Festival",
        "metadata": {
            "name": "one",
            "namespace": "ns",
            "finalizers": ["x/y"],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"stages": [{"name": stage} for stage in stages], **spec},
    }


async def asked(
    client: Client,
    name: str,
    new: Raw | None,
    old: Raw | None = None,
    verb: str = "validate",
    by: str = "alice",
) -> Raw:
    operation = "DELETE" if new is None else "UPDATE" if old else "CREATE"
    user = {"username": by, "groups": ["users"]}
    request = {
        "uid": "u",
        "operation": operation,
        "namespace": "ns",
        "userInfo": user,
        "object": new,
        "oldObject": old,
        "kind": {"group": "example.dev"},
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    path = f"/{verb}/festivals.example.dev/{name}"
    async with client.post(path, json=review) as answer:
        found: Raw = await answer.json(content_type="application/json")
    assert (found["apiVersion"], found["kind"]) == (review["apiVersion"], review["kind"])
    assert found["response"].pop("uid") == "u"
    response: Raw = found["response"]
    return response


async def test_a_write_is_let_through_warned_of_or_refused(client: Client) -> None:
    large, small = festival("a", "b"), festival("a")
    assert await asked(client, "fair-names", large) == {"allowed": True}
    warned = {"allowed": True, "warnings": ["The festival loses stages."]}
    assert await asked(client, "fair-names", small, large) == warned
    refused = await asked(client, "fair-names", festival("rude"))
    told = "A stage is called rude; give it another name."
    status = {"code": 422, "reason": "Invalid", "message": told}
    assert refused == {"allowed": False, "status": status}


async def test_a_deletion_is_asked_for_with_who_wants_it(client: Client) -> None:
    assert (await asked(client, "fair-names", None, festival("a")))["allowed"]
    refused = await asked(client, "fair-names", None, festival(*"abcd"))
    assert refused["status"]["message"] == "alice may not end a large festival; ask an admin."


async def test_what_is_being_deleted_is_let_go(client: Client) -> None:
    """Whoever removes a finalizer updates an object that may break a rule by now."""
    ending = festival("rude")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (await asked(client, "fair-names", ending, ending))["allowed"]


async def test_the_operators_own_writes_are_let_through(client: Client) -> None:
    """Under OLM no match condition can leave them out, and it would wait for itself."""
    own = "system:serviceaccount:festivals:operator"
    assert await asked(client, "fair-names", festival("rude"), by=own) == {"allowed": True}
    assert await asked(client, "tidy", festival("a"), verb="mutate", by=own) == {"allowed": True}


async def test_a_default_changes_what_it_is_about_alone(client: Client) -> None:
    made = festival("a")
    made["spec"]["unknown"] = 1  # of another version of the class
    response = await asked(client, "tidy", made, verb="mutate")
    assert response["allowed"]
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/hours", "value": {"opens": "10"}}]
    made["spec"]["hours"] = {"opens": "", "closes": "5"}
    response = await asked(client, "tidy", made, verb="mutate")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/hours/opens", "value": "10"}]
    made["spec"]["hours"] = {"opens": "8"}
    assert await asked(client, "tidy", made, verb="mutate") == {"allowed": True}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: replace(one, status={"crowd": 5}), "more than the spec, the labels"),
        (
            lambda one: replace(one, metadata=replace(one.metadata, finalizers=[])),
            "more than the spec, the labels",
        ),
        (lambda one: replace(one, spec=replace(one.spec, stages=[])), "length >= 1"),
        (lambda one: one.spec, "it returned Spec, not Festival"),
    ],
)
async def test_a_default_that_may_not_be_is_refused_in_words(
    change: Callable[[Any], Any], told: str
) -> None:
    controller = kr.Manager("o", kr.Settings).controller_for(Festival)

    @controller.default()
    def bad(one: Festival, _: Any) -> Any:
        return change(one)

    async for client in serving(controller):
        response = await asked(client, "bad", festival("a"), verb="mutate")
        assert not response["allowed"]
        assert "bad.festivals.example.dev: " in response["status"]["message"]
        assert told in response["status"]["message"]


async def test_labels_are_changed_and_removed() -> None:
    controller = kr.Manager("o", kr.Settings).controller_for(Festival)

    @controller.default()
    def labelled(one: Festival, _: Any) -> Festival:
        labels = {"a/b~c": "d"}
        return replace(one, metadata=replace(one.metadata, labels=labels, annotations=None))

    made = festival("a")
    made["metadata"] |= {"labels": {"old": "x"}, "annotations": {"y": "z"}}
    async for client in serving(controller):
        response = await asked(client, "labelled", made, verb="mutate")
        assert json.loads(base64.b64decode(response["patch"])) == [
            {"op": "remove", "path": "/metadata/annotations"},
            {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "d"},
            {"op": "remove", "path": "/metadata/labels/old"},
        ]


async def test_what_hangs_is_answered_as_declared(client: Client) -> None:
    response = await asked(client, "in-time", festival("a"))
    told = "It was not checked: in-time.festivals.example.dev: no answer within 0.5 s"
    assert response == {"allowed": True, "warnings": [told]}


async def test_what_raises_is_told_once_with_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    controller = kr.Manager("o", kr.Settings).controller_for(Festival)

    @controller.validate()
    def broken(_: Any, __: Any) -> None:
        raise KeyError("stage")

    with caplog.at_level(logging.ERROR):
        async for client in serving(controller):
            for _ in range(2):
                response = await asked(client, "broken", festival("a"))
    message = "broken.festivals.example.dev: KeyError: 'stage'"
    status = {"code": 500, "reason": "InternalError", "message": message}
    assert response == {"allowed": False, "status": status}
    (record,) = [entry for entry in caplog.records if entry.name.startswith("kopf_runtime")]
    assert record.exc_info


async def test_what_cannot_be_read_is_told_and_may_be_deleted(client: Client) -> None:
    response = await asked(client, "fair-names", festival())
    assert "the object cannot be read: Expected `array` of length >= 1" in str(response["status"])
    assert (await asked(client, "fair-names", None, festival()))["allowed"]
    assert (await asked(client, "tidy", festival(), verb="mutate"))["allowed"]
    assert (await asked(client, "fair-names", festival("a"), festival()))["allowed"]


async def test_what_no_api_server_sends_is_refused_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/validate/festivals.example.dev/fair-names"
    odds: list[Any] = [{"metadata": 5}, {"metadata": ["a"]}, [], "text"]
    for odd in odds:
        request = {"uid": "u", "operation": "CREATE", "object": odd}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "x", "request": request}
        async with client.post(path, json=review) as answer:
            assert answer.status == 400
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_review_of_unknown_size_is_refused_unread(client: Client) -> None:
    path = "/validate/festivals.example.dev/fair-names"

    async def parts() -> AsyncIterator[bytes]:
        yield b"{}"

    zipped = {"data": zlib.compress(b"{}"), "headers": {"Content-Encoding": "deflate"}}
    for told in ({"data": parts()}, zipped):
        async with client.post(path, **told) as answer:
            assert answer.status == 411


# --- what strangers send --------------------------------------------------------------------------

#: Serves what festivals.py declares, and says at its end how much memory it took at most.
PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.endpoints.reviews import Reviews
from kopf_runtime.endpoints.web import MAX_REVIEWS, Server
from runtime import festivals

async def main():
    reviews = Reviews([festivals.controller.versions], festivals.admit())
    server = Server(Metrics("o", "1"))
    await server._serve(("127.0.0.1", int(sys.argv[1])), reviews.routes, None, MAX_REVIEWS)
    for _ in "ab":
        lines = open("/proc/self/status").read().splitlines()
        print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
#: Bytes that all reviews together may take.
BOUND = 120 * 1024 * 1024


def _converted(objects: bytes) -> bytes:
    return (
        b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": '
        b'{"uid": "u", "desiredAPIVersion": "example.dev/v1", "objects": [' + objects + b"]}}"
    )


def _alpha(status: bytes) -> bytes:
    return (
        b'{"apiVersion": "example.dev/v1alpha1", "kind": "Festival", "metadata": {"name": "one"}, '
        b'"spec": {"stageName": "a"}, "status": ' + status + b"}"
    )


def _admitted(status: bytes) -> bytes:
    thing = b'{"metadata": {}, "spec": {"stages": [{"name": "a"}]}, "status": {"a": %b}}' % status
    return (
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": '
        b'{"uid": "u", "operation": "CREATE", "object": ' + thing + b"}}"
    )


MANY = b"[" + b'{"":{}},' * (reviews.PARSED // reviews.PLACE // 3 - 99) + b"1]"
NESTED = b"[" + b'{"":{}},' * (reviews.SMALL // 8 - 50) + b"1]"
HUGE = b'{"a":"' + b"x" * (reviews.MAX_REVIEW_BYTES - 500) + b'"}'


@pytest.mark.parametrize(
    ("path", "body", "connections"),
    [
        ("/convert", _converted(b"0," * (reviews.MAX_REVIEW_BYTES // 2 - 200) + b"0"), 12),
        ("/convert", _converted(_alpha(b'{"a": %b}' % MANY)), 12),
        ("/convert", _converted(_alpha(HUGE)), 12),
        ("/validate/festivals.example.dev/in-time", _admitted(NESTED), 30),
    ],
    ids=["many objects", "many values", "large", "many that wait"],
)
async def test_strangers_cannot_have_the_operator_take_more_memory_than_it_has(
    path: str, body: bytes, connections: int
) -> None:
    """Whoever reaches the port may send reviews, and the chart grants 256 MiB."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(port),
        stdin=-1,
        stdout=-1,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    before = int(await process.stdout.readline())
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

    async def send() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head % (path.encode(), len(body)) + body)
        try:
            return await reader.readline()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    answers = await asyncio.gather(*(send() for _ in range(connections)))

    out, _ = await process.communicate(b"")
    taken = (int(out) - before) * 1024
    assert taken < BOUND, set(answers)
