"""Kinds that others define, Services and Namespaces here; and other installations of ours."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from kubernetes.client import V1ObjectMeta, V1Service

import kopf_runtime as kr
from kopf_runtime.declaring.conditions import condition
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.foreign import foreign
from kopf_runtime.declaring.kinds import CONFIG_MAP, NAMESPACE, SERVICE
from kopf_runtime.working import others
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, Operator, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, manifest, text, widget

KEY, CHILD = ("ns", "one"), ("ns", "s-one")
SELECTED = {"labels": {"mirror": "yes"}}
NAMES = ("blue", "green")
EVENT = kr.Kind("", "v1", "events", "Event")
KINDS = (SERVICE, NAMESPACE, WIDGET)


class Service(kr.Object):
    spec: dict[str, Any] = {}  # noqa: RUF012
    status: dict[str, Any] = {}  # noqa: RUF012


def mirrored(service: Service, _: kr.Context[Any]) -> Iterable[Raw]:
    data = {"type": service.spec.get("type", ""), "ip": service.status.get("ip", "")}
    yield manifest(CONFIG_MAP, f"s-{service.metadata.name}", data=data)


def controller(where: Mapping[str, Any] | None = SELECTED, annotation: str = "") -> Controller:
    one = Controller(SERVICE, Service, None, None, foreign(where, annotation))
    one.owns(CONFIG_MAP)
    one.desired(mirrored)
    return one


def service(name: str = "one", **labels: str) -> Raw:
    meta = {"namespace": "ns", "name": name, "labels": labels or {"mirror": "yes"}}
    return {"metadata": meta, "spec": {"type": "ClusterIP"}}


def child(server: ApiServer, name: str = "s-one") -> Raw | None:
    return server.get(CONFIG_MAP, ("ns", name))


def relabel(server: ApiServer, **labels: str) -> None:
    server.edit(SERVICE, KEY, lambda raw: raw["metadata"].update(labels=labels))


def meta(server: ApiServer, key: tuple[str, str] = KEY) -> Raw:
    found: Raw = (server.get(SERVICE, key) or {})["metadata"]
    return found


@asynccontextmanager
async def serving(server: ApiServer, one: Controller) -> AsyncIterator[Operator]:
    """Run a controller with a Service that is there."""
    server.put(SERVICE, service())
    async with operating(server, one) as operator:
        await until(lambda: child(server) is not None)
        yield operator


async def test_a_selected_object_has_children_and_another_one_has_none(server: ApiServer) -> None:
    server.put(SERVICE, service("two", mirror="no"))
    async with serving(server, controller()) as operator:
        made = child(server)
        assert made is not None
        owner = {"apiVersion": "v1", "kind": "Service", "name": "one", "controller": True}
        assert owner.items() <= made["metadata"]["ownerReferences"][0].items()
        assert f"{NAME}/service-uid" in made["metadata"]["labels"]
        server.edit(CONFIG_MAP, CHILD, lambda raw: raw.update(data={"type": "altered"}))
        await until(lambda: (child(server) or {})["data"]["type"] == "ClusterIP")
        assert operator.metric("unready_objects", resource="services") == 0
    assert child(server, "s-two") is None


async def test_nothing_is_written_to_the_object_itself(server: ApiServer) -> None:
    async with serving(server, controller()):
        server.edit(SERVICE, KEY, lambda raw: raw.update(status={"ip": "10.0.0.1"}))
        await until(lambda: (child(server) or {})["data"]["ip"] == "10.0.0.1")
    assert not [write for write in server.writes if "/services" in write]
    events = [server.get(*at) or {} for at in server.objects if at[0].plural == "events"]
    assert {event["reason"] for event in events} <= {"Created", "Replaced"}


async def test_it_loses_them_also_if_nobody_led_meanwhile(server: ApiServer) -> None:
    async with serving(server, controller()):
        pass
    relabel(server, mirror="no")
    async with operating(server, controller()):
        await until(lambda: child(server) is None)


async def test_it_keeps_them_if_it_is_selected_again_meanwhile(server: ApiServer) -> None:
    selected = [True]

    async def select(request: web.Request) -> None:
        if not selected and (request.method, request.path[-13:]) == ("GET", "/services/one"):
            selected.append(True)
            relabel(server, mirror="yes")

    server.answers.append(select)
    async with serving(server, controller()):
        selected.clear()
        relabel(server, mirror="no")
        await until(lambda: selected)
        await asyncio.sleep(0.3)
    assert not any(write.startswith("DELETE") for write in server.writes)


def finalized(log: list[str], annotation: str = "") -> Controller:
    one = controller(annotation=annotation)

    @one.finalize
    async def finalize(service: Service, _: kr.CallContext[Any]) -> None:
        log.append(service.metadata.name)

    return one


async def test_its_finalizer_is_our_own_and_goes_with_the_selection(server: ApiServer) -> None:
    log: list[str] = []
    async with serving(server, finalized(log)):
        assert meta(server)["finalizers"] == [f"{NAME}/{NAME}"]
        relabel(server, mirror="no", **{f"{NAME}/service": NAME})
        await until(lambda: not meta(server).get("finalizers"))
        assert log == ["one"]
        assert meta(server)["labels"] == {"mirror": "no"}


async def test_a_finalizer_goes_also_if_nobody_led_meanwhile(server: ApiServer) -> None:
    log: list[str] = []
    async with serving(server, finalized(log)):
        pass
    server.remove(CONFIG_MAP, CHILD)  # nothing else tells of it
    relabel(server, mirror="no", **{f"{NAME}/service": NAME})
    async with operating(server, finalized(log)):
        await until(lambda: not meta(server).get("finalizers"))
    assert log == ["one"]


async def test_what_is_left_without_our_finalizer_is_not_finalized(server: ApiServer) -> None:
    log: list[str] = []
    theirs = {"finalizers": ["example.com/hold"], "labels": {"mirror": "no"}}
    async with serving(server, finalized(log, "example.dev/state")):
        await until(lambda: meta(server).get("annotations"))
        server.edit(SERVICE, KEY, lambda raw: raw["metadata"].update(theirs))
        await until(lambda: child(server) is None and not meta(server).get("annotations"))
    assert (log, meta(server)["finalizers"]) == ([], ["example.com/hold"])


def contributing(team: str | None = "a") -> Controller:
    one = controller()

    @one.contribution
    def contribution(service: Service, _: kr.Context[Any]) -> Raw | None:
        return {"metadata": {"labels": {"team": team}}} if team else None

    return one


async def test_what_is_contributed_is_there_and_stays_there(server: ApiServer) -> None:
    async with serving(server, contributing()):
        await until(lambda: meta(server)["labels"].get("team") == "a")
        server.edit(SERVICE, KEY, lambda raw: raw["metadata"]["labels"].pop("team"))
        await until(lambda: meta(server)["labels"].get("team") == "a")
    before = len(server.writes)
    async with operating(server, contributing()) as operator:
        await until(lambda: operator.reconciles(of="services") >= 1)
    assert server.writes[before:] == []  # a restart writes nothing


async def test_k3_what_is_contributed_may_be_a_model(server: ApiServer) -> None:
    one = controller()

    @one.contribution
    def contribution(service: Service, _: kr.Context[Any]) -> kr.Manifest:
        return V1Service(metadata=V1ObjectMeta(labels={"team": "a"}))

    async with serving(server, one):
        await until(lambda: meta(server)["labels"].get("team") == "a")


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (["team"], "the contribution failed: TypeError: it returned a list, not a mapping"),
        (KeyError("team"), "the contribution failed: KeyError: 'team'"),
        (kr.PlanError("It has no team."), "It has no team."),
        (kr.Wait("TeamUnknown", "Its team is not known yet."), "Its team is not known yet."),
    ],
)
async def test_a_contribution_that_fails_is_told_and_takes_nothing_back(
    server: ApiServer, result: Any, told: str
) -> None:
    one, failing = controller(), False

    @one.contribution
    def contribution(*_: Any) -> Any:
        if failing and isinstance(result, Exception):
            raise result
        return result if failing else {"metadata": {"labels": {"team": "a"}}}

    async with serving(server, one):
        await until(lambda: meta(server)["labels"].get("team") == "a")
        failing = True
        server.edit(SERVICE, KEY, lambda raw: raw["spec"].update(type="NodePort"))
        await until(lambda: any(told in event["message"] for event in server.events))
    assert meta(server)["labels"]["team"] == "a"


@pytest.mark.parametrize("again", [contributing(None), controller()])
async def test_what_is_contributed_no_longer_is_removed(
    server: ApiServer, again: Controller
) -> None:
    async with serving(server, contributing()):
        await until(lambda: meta(server)["labels"].get("team") == "a")
    async with operating(server, again):
        await until(lambda: "team" not in meta(server)["labels"])
    assert meta(server)["labels"] == {"mirror": "yes"}


async def test_what_is_contributed_goes_with_the_selection(server: ApiServer) -> None:
    async with serving(server, contributing()):
        await until(lambda: meta(server)["labels"].get("team") == "a")
        server.edit(SERVICE, KEY, lambda raw: raw["metadata"]["labels"].update(mirror="no"))
        await until(lambda: "team" not in meta(server)["labels"])
    assert meta(server)["labels"] == {"mirror": "no"}


@pytest.mark.parametrize(
    ("team", "told"),
    [("green", "green/message, leaves this Service to it"), (None, "deletes it for the last time")],
)
async def test_j6_of_two_installations_one_steps_back_with_its_contribution(
    server: ApiServer, team: str | None, told: str
) -> None:
    server.put(SERVICE, service())
    installed = [kr.Settings(lease_namespace=name, lease_name="message") for name in NAMES]
    async with operating(server, contributing(NAMES[0]), settings=installed[0]):
        await until(lambda: meta(server)["labels"].get("team") == NAMES[0])
        async with operating(server, contributing(team), settings=installed[1]):
            await until(lambda: any(told in event["message"] for event in server.events))
            await until(lambda: meta(server)["labels"].get("team") == NAMES[0])
            before = len(server.writes)
            await asyncio.sleep(1)  # what it would go on with
            assert server.writes[before:] == []


async def test_the_state_goes_into_events_a_metric_and_an_annotation(server: ApiServer) -> None:
    one = controller(annotation="example.dev/state")
    one.declaration.owned[CONFIG_MAP]

    @one.status
    def status(one: Any, seen: kr.Observed) -> kr.Status:
        ready = one is not None and not seen.missing
        return kr.Status(ready, "Mirrored" if ready else "Missing", "It is mirrored.")

    async with serving(server, one):
        stated = "Mirrored: It is mirrored."
        await until(lambda: meta(server).get("annotations") == {"example.dev/state": stated})
        server.edit(SERVICE, KEY, lambda raw: raw["metadata"].pop("annotations"))
        await asyncio.sleep(0.5)  # who takes it away may do that each time
        assert not meta(server).get("annotations")
        await until(lambda: meta(server).get("annotations") == {"example.dev/state": stated})


async def test_k1_a_state_goes_also_if_nobody_led_meanwhile(server: ApiServer) -> None:
    async with serving(server, controller(annotation="example.dev/state")):
        await until(lambda: meta(server).get("annotations"))
    server.remove(CONFIG_MAP, CHILD)  # nothing else tells of it
    relabel(server, mirror="no")
    server.put(SERVICE, service("never", mirror="no"))
    async with operating(server, controller(annotation="example.dev/state")):
        await until(lambda: not meta(server).get("annotations"))


@pytest.mark.parametrize("condition", ["", "Mirrored"])
async def test_a_state_that_somebody_else_has_written_stays(
    server: ApiServer, condition: str
) -> None:
    declared = foreign(SELECTED, "" if condition else "example.dev/state", condition, Service)
    one = Controller(SERVICE, Service, None, None, declared)
    one.owns(CONFIG_MAP)
    one.desired(mirrored)
    two = service("two", mirror="no")
    two["metadata"]["annotations"] = {"example.dev/state": "theirs"}
    two["status"] = {"conditions": [{"type": "Mirrored", "status": "True", "reason": "A"}]}
    server.put(SERVICE, two)
    async with serving(server, one):
        await asyncio.sleep(0.5)  # what is left is looked for at the start
    assert not [asked for asked in server.requests if "/services/two" in asked.path]


async def test_a_state_that_another_controller_has_written_since_stays(server: ApiServer) -> None:
    theirs = {"labels": {"mirror": "no"}, "annotations": {"example.dev/state": "theirs"}}
    async with serving(server, controller(annotation="example.dev/state")):
        await until(lambda: meta(server).get("annotations"))
        server.edit(SERVICE, KEY, lambda raw: raw["metadata"].update(theirs))
        await until(lambda: child(server) is None)
        await asyncio.sleep(0.5)
    assert meta(server)["annotations"] == theirs["annotations"]


@pytest.mark.parametrize("status", [404, 409])
async def test_k4_a_condition_that_is_refused_is_told_by_one_event(
    server: ApiServer, status: int
) -> None:
    one = Controller(SERVICE, Service, None, None, foreign(SELECTED, "", "Mirrored", Service))
    one.owns(CONFIG_MAP)
    one.desired(mirrored)
    server.refuse("PATCH", "/services/one/status$", RefusedError(status, "Refused"), 1000)
    async with serving(server, one):
        await until(lambda: any(each["reason"] == "StatusRefused" for each in server.events))
        await asyncio.sleep(1)
        tried = [write for write in server.writes if write.endswith("/status")]
    assert [each["reason"] for each in server.events].count("StatusRefused") == 1
    assert len(tried) < 12  # each pause is twice as long as the one before


def test_our_condition_is_told_from_those_of_others() -> None:
    ours = foreign(None, "", "Mirrored", Service)
    theirs = {"type": "Theirs", "status": "True"}

    def thing(*conditions: Raw) -> Service:
        raw = {"metadata": {"name": "one", "uid": "u", "resourceVersion": "1"}}
        return msgspec.convert(raw | {"status": {"conditions": conditions}}, Service)

    said = {"type": "Mirrored", "status": "True", "reason": "A"}
    assert ours.state_of(thing(theirs, said)) == "True A: "
    assert ours.state_of(thing(theirs)) == ours.state_of(thing()) == ""
    assert ours.of_others(thing(said, theirs)) == ours.of_others(thing(theirs))
    assert ours.of_others(thing(said)) != ours.of_others(thing(theirs))


async def test_a_namespace_may_have_children_in_itself(server: ApiServer) -> None:
    one = Controller(NAMESPACE, kr.Object, None, None, foreign(None, ""))
    one.owns(CONFIG_MAP)

    @one.desired
    def desired(namespace: kr.Object, _: kr.Context[Any]) -> Iterable[Raw]:
        name = namespace.metadata.name
        yield manifest(CONFIG_MAP, "about", {"namespace": name}, data={"of": name})

    server.put(NAMESPACE, {"metadata": {"name": "ns"}})
    async with operating(server, one):
        await until(lambda: child(server, "about") is not None)


async def test_an_event_says_what_would_be_done_for_a_paused_object(server: ApiServer) -> None:
    raw = service()
    raw["metadata"]["annotations"] = {f"{NAME}/paused": "true"}
    server.put(SERVICE, raw)

    def messages() -> list[Any]:
        events = [server.get(*at) or {} for at in server.objects if at[0].plural == "events"]
        return [event.get("message") for event in events]

    would = "Would create ConfigMap s-one; change what it adds to the Service."
    async with operating(server, contributing()):
        await until(lambda: messages() == [would])
    assert child(server) is None


# --- two installations of one operator over the same objects, with settings that differ (J6) ------


def installed(
    server: ApiServer, name: str, says: str = "", more: int = 0
) -> AbstractAsyncContextManager[Operator]:
    """Run an installation whose Lease is in the namespace of this name."""

    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        text = f"{thing.spec.text} {says or name}"
        for child in ("w-one", *(f"more-{number}" for number in range(more))):
            yield manifest(CONFIG_MAP, child, data={"text": text})

    settings = kr.Settings(lease_namespace=name, lease_name="message")
    return operating(server, widgets.controller(desired), settings=settings)


def has_event(server: ApiServer, words: str) -> bool:
    told = [event for event in server.events if event["reason"] == "AnotherInstallation"]
    return any(words in event["message"] for event in told)


async def test_j6_one_of_two_installations_steps_back_and_both_say_so(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def is_paused() -> bool:
        status = (server.get(WIDGET, KEY) or {})["status"]
        return bool(condition(status, "Paused").get("message") == "Nothing is to be done.")

    server.put(WIDGET, widget())
    async with installed(server, "blue") as blue:
        await until(lambda: text(server) == "hello blue")
        async with installed(server, "green") as green:
            await until(lambda: has_event(server, "green/message, leaves this Widget to it"))
            await until(lambda: has_event(server, "blue/message, changes that"))
            await until(lambda: text(server) == "hello blue")
            await asyncio.sleep(1)  # the last status
            before = len(server.writes)
            await asyncio.sleep(2)
            assert server.writes[before:] == []
            assert text(server) == "hello blue"
            paused = {"example.dev/paused": "true"}
            server.edit(WIDGET, KEY, lambda raw: raw["metadata"].update(annotations=paused))
            await until(is_paused)
            await asyncio.sleep(1)  # the other one's word
            assert is_paused()
            assert [one.metric("other_installations") for one in (blue, green)] == [1, 1]
    for name in NAMES:
        assert f"Another installation of this operator, {name}/message, is at work" in caplog.text


async def test_j6_an_object_that_the_other_one_does_not_follow_is_served_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "FOLLOWS", 1.0)
    server.put(WIDGET, widget())
    async with installed(server, "green"):
        async with installed(server, "blue"):
            await until(lambda: has_event(server, "leaves this Widget to it"))
            server.edit(WIDGET, KEY, edit("first"))
            await until(lambda: text(server) == "first blue")
            await asyncio.sleep(0.5)  # the status
            before = len(server.writes)
            await asyncio.sleep(2)
            assert server.writes[before:] == []  # the other one follows
        server.edit(WIDGET, KEY, edit("second"))
        await until(lambda: text(server) == "second green")


async def test_j6_what_only_one_of_two_installations_wants_stays(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with installed(server, "green", "same", more=1):
        await until(lambda: child(server, "more-0"))
        async with installed(server, "blue", "same"):
            await until(lambda: has_event(server, "deletes it for the last time"))
            await until(lambda: child(server, "more-0"))
            before = child(server, "more-0")
            await asyncio.sleep(2)
            assert child(server, "more-0") == before


async def test_j6_a_former_installation_is_no_other(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with installed(server, "blue", more=5):
        await until(lambda: child(server, "more-4"))
    async with installed(server, "green", more=5) as green:
        await until(lambda: text(server) == text(server, ("ns", "more-4")) == "hello green")
        server.edit(WIDGET, KEY, edit("next"))
        await until(lambda: text(server) == "next green")
        assert not green.metric("other_installations")
    async with installed(server, "red", "green") as red:
        await until(lambda: child(server, "more-4") is None)
        assert not red.metric("other_installations")
    assert not has_event(server, "installation")
