"""Admission: what is declared, what the API server is answered, and when it may ask.

tests/faults/test_admission.py has a real API server, and rotates the certificate.
"""

import asyncio
import base64
import contextlib
import dataclasses
import json
import logging
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import aiohttp
import kopf
import msgspec
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

import kopf_runtime as kr
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.declaration import declared
from kopf_runtime.declaring.errors import ApiError, DeclarationError
from kopf_runtime.declaring.kinds import VALIDATING_WEBHOOK_CONFIGURATION
from kopf_runtime.declaring.settings import Settings
from kopf_runtime.endpoints import certificates, reviews
from kopf_runtime.endpoints.certificates import Certificates
from kopf_runtime.endpoints.reviews import Reviews
from kopf_runtime.endpoints.web import Server
from kopf_runtime.process import beside_kopf, kopf_admission
from runtime import festivals, permits
from runtime.festivals import Festival
from runtime.support.api_server import ApiServer
from runtime.support.certificates import trust_in
from runtime.support.running import at_work, operating
from runtime.support.waiting import until

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
    assert names.timeout_seconds == 10  # five for the function


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
    slow = festival("a")
    slow["metadata"]["name"] = "slow"
    response = await asked(client, "in-time", slow)
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


async def test_c5_a_function_asks_others_by_post_on_a_standby_too(server: ApiServer) -> None:
    """The Service of the webhooks sends every second write of a user to the standby."""
    asked_by: list[str] = []

    async def judge(request: web.Request) -> web.Response:
        asked_by.append(request.headers.get("Authorization", "nobody"))
        rude = "rude" in await request.text()
        return web.json_response({"allow": not rude})

    policies = web.Application()
    policies.add_routes([web.post("/", judge)])
    server.put(declared(Festival).kind, festival("a"))
    async with TestServer(policies) as policy, contextlib.AsyncExitStack() as replicas:
        for leads in (True, False):
            one = Controller(declared(Festival).kind, Festival, None)

            @one.validate()
            async def allowed(festival: Festival, context: kr.ReviewContext[Any]) -> None:
                names = [stage.name for stage in festival.spec.stages]
                async with context.session.post(policy.make_url("/"), json=names) as answer:
                    if not (await answer.json())["allow"]:
                        raise kr.Denied("The policy forbids it.")

            running = await replicas.enter_async_context(operating(server, one, working=leads))
            running.client.may_write = lambda leads=leads: leads  # type: ignore[misc]
            application = web.Application()
            answers = [(path, function.answer) for path, function in at_work(one).asked()]
            application.add_routes(Reviews([], answers).routes)
            client = await replicas.enter_async_context(TestClient(TestServer(application)))
            assert await asked(client, "allowed", festival("a")) == {"allowed": True}
            refused = await asked(client, "allowed", festival("rude"))
            assert refused["status"]["message"] == "The policy forbids it."
            # What is no review stays fenced, through the same session.
            session = await at_work(one).external.session()
            with contextlib.nullcontext() if leads else pytest.raises(ApiError, match="leader"):
                (await session.post(policy.make_url("/"), json=[])).close()

    assert asked_by == ["nobody"] * 5  # the session has no credentials of the cluster


async def test_t4_a_body_that_hangs_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "GRACE", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    path = "/validate/festivals.example.dev/fair-names"
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n ".encode())

    async with asyncio.timeout(30):
        assert b"408" in await reader.readline()
    writer.close()


async def test_t4_too_many_values_are_refused_before_they_are_parsed(client: Client) -> None:
    many = b"[" + b"0," * (reviews.PARSED // reviews.VALUE) + b"0]"
    path = "/validate/festivals.example.dev/fair-names"
    async with client.post(path, data=many) as answer:
        assert (answer.status, "too many values" in await answer.text()) == (413, True)


# --- kopf's own handlers --------------------------------------------------------------------------


@pytest.fixture
def registry() -> Iterator[kopf.OperatorRegistry]:
    """Have kopf's decorators register in a registry of the test's."""
    before, own = kopf.get_default_registry(), kopf.OperatorRegistry()
    kopf.set_default_registry(own)
    yield own
    kopf.set_default_registry(before)


def test_kopfs_handlers_are_webhooks_as_kopf_would_configure_them() -> None:
    holder, day = permits.manager.webhooks

    assert (holder.kind, holder.name) == ("validating", "known-holder.permits.example.dev")
    assert (holder.group, holder.versions, holder.resource) == ("example.dev", ("v1",), "permits")
    assert (holder.operations, holder.failure_policy) == (("CREATE", "UPDATE"), "Fail")
    assert (holder.side_effects, holder.object_selector) == ("None", {})
    assert (day.kind, day.name) == ("mutating", "a-day.permits.example.dev")
    # kopf calls one that names no operation for no deletion, which need not wait for it.
    assert (day.operations, day.failure_policy) == (("CREATE", "UPDATE"), "Ignore")
    assert day.side_effects == "NoneOnDryRun"
    short = {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["short"]}]}
    assert day.object_selector == short
    for webhook in (holder, day):
        assert (webhook.timeout, webhook.timeout_seconds) == (25, 30)
        assert "kube-system" in webhook.match_conditions["not-the-control-plane"]


@pytest.mark.parametrize(
    "names",
    [
        ("pods",),
        (kopf.EVERYTHING,),
        ("example.dev", "v2", "permits"),
        (lambda resource: resource.plural == "permits",),
    ],
    ids=["core", "everything", "version", "function"],
)
def test_kinds_of_others_have_no_webhook(registry: kopf.OperatorRegistry, names: Any) -> None:
    kopf.on.validate(*names, id="theirs")(lambda **_: None)
    assert [*kopf_admission.webhooks(registry, [permits.Permit])] == [("theirs", None)]


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda on: [on.validate("permits", id="a_b"), on.validate("pmt", id="a-b")], "rename one"),
        (
            lambda on: [on.validate("permits", id="길")],
            "'길' cannot name a webhook; give the handl",
        ),
        (
            lambda on: [on.validate("permits", id="a"), on.index("permits", id="b")],
            "the index b: us",
        ),
    ],
    ids=["twice", "no name", "index"],
)
@pytest.mark.usefixtures("registry")
def test_kopfs_handlers_that_cannot_be_asked_are_refused(
    declare: Callable[[Any], list[Any]], told: str
) -> None:
    manager = kr.Manager("o", kr.Settings)
    manager.controller_for(permits.Permit)
    for decorate in declare(kopf.on):
        decorate(lambda **_: None)

    with pytest.raises(DeclarationError, match=told):
        _ = manager.webhooks


async def permitting(timeout: float = 5) -> AsyncIterator[Client]:
    application = web.Application()
    application.add_routes(Reviews([], permits.admit(timeout)).routes)
    async with TestClient(TestServer(application)) as one:
        yield one


permit_client = pytest.fixture(permitting)


def permit(holder: str, days: int = 0, **metadata: Any) -> Raw:
    spec = {"holder": holder, "days": days}
    metadata = {"name": "one", "namespace": "ns", **metadata}
    return {"apiVersion": "example.dev/v1", "kind": "Permit", "metadata": metadata, "spec": spec}


async def asked_kopf(
    client: Client, path: str, new: Raw, by: str = "alice", plural: str = "permits"
) -> Raw:
    request = {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "example.dev", "version": "v1", "resource": plural},
        "userInfo": {"username": by},
        "object": new,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    async with client.post(f"/kopf/{path}.permits.example.dev", json=review) as answer:
        response: Raw = (await answer.json())["response"]
    assert response.pop("uid") == "u"
    return response


HOLDER, DAY = "validating/known-holder", "mutating/a-day"


async def test_kopfs_handlers_refuse_warn_and_change(permit_client: Client) -> None:
    assert await asked_kopf(permit_client, HOLDER, permit("alice")) == {"allowed": True}
    warned = {"allowed": True, "warnings": ["That is nearly a year."]}
    assert await asked_kopf(permit_client, HOLDER, permit("alice", 301)) == warned
    refused = {"allowed": False, "status": {"code": 422, "message": "mallory is banned."}}
    assert await asked_kopf(permit_client, HOLDER, permit("mallory")) == refused
    changed = await asked_kopf(permit_client, DAY, permit("alice", labels={"kind": "short"}))
    assert (changed["allowed"], changed["patchType"]) == (True, "JSONPatch")
    (step,) = json.loads(base64.b64decode(changed["patch"]))
    assert (step["path"], step["value"]) == ("/spec/days", 1)


async def test_kopfs_handlers_are_not_asked_where_ours_are_not(permit_client: Client) -> None:
    """The operator's own writes and the control plane's, and what is being deleted."""
    for by in ("system:serviceaccount:permits:operator", "system:kube-controller-manager"):
        assert (await asked_kopf(permit_client, HOLDER, permit("mallory"), by))["allowed"]
    ending = permit("mallory", deletionTimestamp="2026-01-01T00:00:00Z")
    assert (await asked_kopf(permit_client, HOLDER, ending))["allowed"]


async def test_a_handler_of_kopfs_that_cannot_judge_is_told() -> None:
    async for client in permitting(0.2):
        hung = await asked_kopf(client, HOLDER, permit("slow"))
        other = [await asked_kopf(client, path, permit("x"), plural="x") for path in (HOLDER, DAY)]
    told = "known-holder.permits.example.dev: no answer within 0.2 s"
    assert (hung["allowed"], hung["status"]["message"]) == (False, told)
    assert "The specified resource has no handlers" in other[0]["status"]["message"]
    assert other[1]["allowed"]
    assert "It was not checked: a-day.permits.example.dev" in other[1]["warnings"][0]


@pytest.mark.usefixtures("registry")
async def test_a_handler_of_kopfs_waits_for_startup_handlers() -> None:
    beside = beside_kopf.BesideKopf(lambda: [permits.Permit])

    @kopf.on.validate("permits", id="once")
    def once(**given: Any) -> None:
        raise kopf.AdmissionError(f"{given['memo'].name} is told", code=422)

    async def own() -> str:
        return "operator"

    client: Any = SimpleNamespace(user=own)
    memo = kopf.Memo()
    ((_, asking),) = beside.asked(client, kopf.OperatorSettings(), memo)
    made = msgspec.Raw(json.dumps(permit("x")).encode())
    where = {"group": "example.dev", "version": "v1", "resource": "permits"}
    request = reviews.Admission("u", "CREATE", resource=where, object=made)

    answer = asyncio.create_task(asking.answer(request))
    await asyncio.sleep(0.1)
    memo.name = "alice"
    beside.lead()
    await beside.until_leading()  # the last one

    assert (await answer)["status"]["message"] == "alice is told"


async def test_at_its_end_the_server_answers_and_has_every_connection_closed() -> None:
    """A review on a connection that has just been closed would fail the request of a user."""
    server, context = Server(Metrics("o", "1")), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(context)
    settings = Settings(
        metrics_bind_address=None,
        health_probe_bind_address=None,
        webhook_bind_address=("127.0.0.1", 0),
    )
    versions = Versions.of(festivals.controller.declaration)
    assert versions
    routes = Reviews([versions], ()).routes
    await server.start(settings, Mock(), lambda: "", lambda: "", routes, context)
    assert server._reviews
    url = f"https://127.0.0.1:{server._reviews.addresses[0][1]}/convert"

    connector = aiohttp.TCPConnector(ssl=trust_in(authority))
    async with aiohttp.ClientSession(connector=connector) as session:

        async def converted() -> str:
            async with session.post(url, data=_converted(_alpha(b"{}"))) as answer:
                assert answer.status == 200
                return answer.headers.get("Connection", "")

        assert await converted() == ""
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        assert [await converted() for _ in range(3)] == ["close"] * 3
        await stopping
        with pytest.raises(aiohttp.ClientConnectorError):
            await converted()


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


# --- when a replica may be asked: once the API server trusts its certificate ---------------------

KIND = festivals.controller.kind
SETTINGS = dataclasses.replace(
    kr.Settings(),
    own_namespace="ours",
    webhook_secret="tls",
    webhook_service="hooks",
    webhook_configuration="ours.festivals",
)
CONFIGURATION = VALIDATING_WEBHOOK_CONFIGURATION.path(name="ours.festivals")
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{KIND}"


class Kube:
    """An API kube with some objects, of which some may not be read."""

    manager = "festival-operator"

    def __init__(self, **objects: Any) -> None:
        self.objects: dict[str, Any] = {}
        self.forbidden: set[str] = set()
        self.patched: list[tuple[str, Any]] = []

    def now(self) -> float:
        return time.time()

    async def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if path in self.forbidden:
            raise ApiError(method, path, 403, "Forbidden", "no right")
        if method == "PATCH" and "/secrets/" in path:
            self.objects[path] = {"metadata": {"resourceVersion": "1"}, "data": body["data"]}
        elif method == "PATCH":
            self.patched.append((path, body))
        if path not in self.objects:
            raise ApiError(method, path, 404, "NotFound", "it is not there")
        found: dict[str, Any] = self.objects[path]
        return found


def asking(service: str) -> dict[str, Any]:
    """Return whom the API kube asks."""
    return {"clientConfig": {"service": {"namespace": "ours", "name": service}}}


def converting(service: str) -> dict[str, Any]:
    spec = {"conversion": {"webhook": asking(service)}}
    return {"metadata": {"resourceVersion": "1"}, "spec": spec}


@contextlib.asynccontextmanager
async def running(kube: Kube, settings: kr.Settings = SETTINGS) -> AsyncIterator[Certificates]:
    webhooks = [webhook for webhook in festivals.manager.webhooks if webhook.kind == "validating"]
    found = Certificates(kube, settings, webhooks, [KIND])  # type: ignore[arg-type]
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Kube:
    monkeypatch.setattr(certificates, "LOOK", 0.02)
    one = Kube()
    one.objects[CRD] = converting("hooks")
    names = [each.name for each in festivals.manager.webhooks if each.kind == "validating"]
    webhooks = [{"name": name, **asking("hooks")} for name in names]
    one.objects[CONFIGURATION] = {"metadata": {"resourceVersion": "1"}, "webhooks": webhooks}
    return one


async def test_it_is_ready_once_all_that_asks_it_was_told(kube: Kube) -> None:
    configuration = kube.objects.pop(CONFIGURATION)  # Helm installs it last
    async with running(kube) as one:
        await until(lambda: "has no webhook of ours yet" in one.untrusted)
        kube.objects[CONFIGURATION] = configuration
        await until(lambda: not one.untrusted)
    bundle = dict(kube.patched)[CONFIGURATION]["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle).startswith(b"-----BEGIN CERTIFICATE-----")


async def test_what_asks_another_release_is_left_alone(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    kube.objects[CRD] = converting("of-another-release")
    with caplog.at_level(logging.WARNING):
        async with running(kube) as one:
            await until(lambda: not one.untrusted)
    assert CRD not in dict(kube.patched)
    assert f"{KIND} is converted by somebody else" in caplog.text


async def test_without_a_right_to_the_crd_it_is_ready_where_namespaces_are_selected(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    kube.forbidden.add(CRD)
    selected = dataclasses.replace(SETTINGS, namespaces=("team-a",))
    with caplog.at_level(logging.WARNING):
        async with running(kube, selected) as one:
            await until(lambda: not one.untrusted)
    assert "they write ca.crt of the Secret tls into its" in caplog.text

    async with running(kube) as one:  # it should have that right, and may get it
        await until(lambda: "Forbidden: no right" in caplog.text)
        assert one.untrusted
        kube.forbidden.clear()
        await until(lambda: not one.untrusted)
