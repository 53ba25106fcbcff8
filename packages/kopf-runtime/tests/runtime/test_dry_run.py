"""What would be done is told, and not done: by `--dry-run`, and of a paused object."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import kopf
import pytest
import yaml
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.cluster import credentials
from kopf_runtime.declaring import settings
from kopf_runtime.declaring.conditions import condition
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD, SECRET
from kopf_runtime.working.diff import LAST_APPLIED, diff
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, reconciled, widget, working_on

KEY, CHILD = ("ns", "one"), ("ns", "w-one")


@kr.custom_resource("example.dev", "v1", "widgets", kind="Widget")
class Declared(Widget):
    """A Widget has a ConfigMap."""


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    async with ApiServer(WIDGET).running() as one:
        monkeypatch.setattr(credentials, "find", lambda: kopf.ConnectionInfo(server=one.url))
        yield one


def operator() -> kr.Manager[kr.Settings]:
    manager = kr.Manager(NAME, kr.Settings)
    controller = manager.controller_for(Declared)
    controller.owns(CONFIG_MAP)
    controller.desired(widgets.config_map)
    return manager


def only_read(server: ApiServer) -> bool:
    return {request.method for request in server.requests} == {"GET"}


async def compared(manager: kr.Manager[kr.Settings]) -> int:
    return await manager._dry_run(kr.Settings(dry_run=True))


async def test_what_would_change_is_printed_and_nothing_is_written(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(WIDGET, widget())

    assert await compared(operator()) == 1
    assert only_read(server)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "# Widget ns/one: would create ConfigMap w-one"
    assert lines[:2] == ["--- LIVE/v1.ConfigMap.ns.w-one", "+++ MERGED/v1.ConfigMap.ns.w-one"]
    assert "+  text: hello" in lines

    async with operating(server, *operator().controllers):
        await until(lambda: server.get(CONFIG_MAP, CHILD))
    server.requests.clear()
    assert await compared(operator()) == 0
    assert only_read(server)
    assert capsys.readouterr().out == ""

    server.edit(WIDGET, KEY, edit("changed"))
    assert await compared(operator()) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "-  text: hello" in lines
    assert "+  text: changed" in lines
    assert only_read(server)


async def test_no_write_of_the_author_s_leaves_the_process_either(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = operator()

    @manager.adapt
    async def adapt(client: kr.Client, given: kr.Settings) -> kr.Settings:
        await client.ask("POST", "/api/v1/namespaces/ns/configmaps", {"metadata": {"name": "x"}})
        return given

    assert await compared(manager) == 2
    assert server.requests == []
    assert "Fenced" in capsys.readouterr().err


async def test_what_fails_is_told_and_does_not_look_like_no_difference(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(WIDGET, widget())
    server.put(WIDGET, {**widget("odd"), "spec": "no spec"})
    assert await compared(operator()) == 2
    told = capsys.readouterr()
    assert "Widget ns/odd: " in told.err
    assert "would create ConfigMap w-one" in told.out

    server.refuse("GET", "/widgets$", RefusedError(403, "Forbidden"))
    assert await compared(operator()) == 2
    assert "the operator has no right to it" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["sync", "check"])
async def test_what_is_not_called_is_a_difference_only_where_a_plan_depends_on_it(
    server: ApiServer, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    manager = operator()
    (one,) = manager.controllers

    async def ask(*_: Any) -> str:
        return "answer"

    getattr(one, call)(every=3600)(ask)
    async with working_on(server, widget(), one):
        await until(lambda: server.get(CONFIG_MAP, CHILD))
    server.requests.clear()
    assert await compared(manager) == 0
    server.edit(WIDGET, KEY, edit("changed"))
    assert await compared(manager) == 1
    assert "+  text: changed" in capsys.readouterr().out

    @widgets.otherwise(one).desired
    def desired(thing: Widget, context: kr.Context[Any]) -> Iterable[Raw]:
        if context.sync_result or context.check_result:
            yield from widgets.config_map(thing)

    assert await compared(manager) == 2
    told = capsys.readouterr()
    why = "it depends on what ask returns, which a dry run does not call"
    assert told.err == f"{NAME}: Widget ns/one: {why}\n"
    assert told.out == ""
    assert only_read(server)


async def test_an_object_that_waits_has_no_difference(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = operator()

    @widgets.otherwise(manager.controllers[0]).desired
    def desired(*_: Any) -> Iterable[Raw]:
        raise kr.Wait("Missing", "There is no Secret yet.")

    server.put(WIDGET, widget())
    assert await compared(manager) == 0
    assert capsys.readouterr().out == "# Widget ns/one: waits: There is no Secret yet.\n"


async def test_an_optional_kind_that_is_slow_to_answer_is_waited_for(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else what is to be made of it would be told though its kind is not there."""
    manager = kr.Manager(NAME, kr.Settings)
    controller = manager.controller_for(Declared)
    controller.owns(CONFIG_MAP, optional=True)
    controller.desired(widgets.config_map)

    async def slow(request: web.Request) -> web.Response | None:
        if "configmaps" not in request.path:
            return None
        await asyncio.sleep(0.3)
        return RefusedError(404, "NotFound").response()

    server.answers.append(slow)
    server.put(WIDGET, widget())
    assert await compared(manager) == 0
    assert capsys.readouterr().out == ""


def test_it_is_a_flag_without_a_variable() -> None:
    program = settings.Program(NAME, "1", "")
    assert settings.parse(program, kr.Settings, ["--dry-run"], {}).dry_run
    assert not settings.parse(program, kr.Settings, [], {"MESSAGE_OPERATOR_DRY_RUN": "1"}).dry_run


# --- a paused object: nothing but its status is written, which tells what would be done ----------

PAUSED = {"example.dev/paused": "true"}
STATUS = "PATCH /apis/example.dev/v1/namespaces/ns/widgets/one/status"


def paused(server: ApiServer) -> Any:
    return condition((server.get(WIDGET, KEY) or {}).get("status") or {}, "Paused")


def pause(value: str | None) -> Callable[[Raw], None]:
    def change(raw: Raw) -> None:
        raw["metadata"]["annotations"] = {"example.dev/paused": value} if value else {}

    return change


async def test_what_would_be_done_is_told_and_done_once_the_pause_ends(server: ApiServer) -> None:
    async with working_on(server, widget(annotations=PAUSED), widgets.controller()):
        await until(lambda: paused(server).get("message") == "Would create ConfigMap w-one.")
        assert paused(server)["status"] == "True"
        assert set(server.writes) == {STATUS}

        server.edit(WIDGET, KEY, pause("no"))
        await until(lambda: server.get(CONFIG_MAP, CHILD))
        await until(lambda: paused(server)["status"] == "False")

        server.edit(WIDGET, KEY, pause("true"))
        await until(lambda: paused(server)["message"] == "Nothing is to be done.")
        before = len(server.writes)
        server.edit(WIDGET, KEY, edit("changed"))
        await until(lambda: "change ConfigMap w-one (the" in paused(server)["message"])
        server.edit(CONFIG_MAP, CHILD, lambda raw: raw["data"].update(text="mine"), "kubectl")
        server.remove(CONFIG_MAP, CHILD)
        await until(lambda: paused(server)["message"] == "Would create ConfigMap w-one.")
        server.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "w-one"}})
        server.edit(WIDGET, KEY, edit("again"))
        told = "Would wait for the other owner of ConfigMap w-one."
        await until(lambda: paused(server)["message"] == told)
        assert ready(server.get(WIDGET, KEY))["reason"] != "Paused"  # how it fares is known
        assert set(server.writes[before:]) == {STATUS}


async def test_k2_two_installations_do_not_overwrite_each_other_s_message_at_once(
    server: ApiServer,
) -> None:
    def named(name: str) -> Controller:
        def desired(thing: Widget, _: object) -> Any:
            for child in widgets.config_map(thing):
                child["metadata"]["name"] = name
                yield child

        return widgets.controller(desired)

    server.put(WIDGET, widget(annotations=PAUSED))
    settings = [kr.Settings(lease_namespace=name, lease_name="a") for name in ("blue", "green")]
    async with (
        operating(server, named("blue"), settings=settings[0]),
        operating(server, named("green"), settings=settings[1]),
    ):
        await until(lambda: len(server.writes) >= 3)
        await asyncio.sleep(4)
        assert len(server.writes) < 10  # each waits for 2, 4, 8 … seconds


async def test_what_waits_for_another_child_is_not_told_as_done_first(server: ApiServer) -> None:
    def desired(thing: Widget, _: object) -> Any:
        yield from widgets.config_map(thing)
        yield widgets.manifest(POD, "first", spec={})

    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP, after=(POD,))
    one.owns(POD)
    one.desired(desired)
    async with working_on(server, widget(annotations=PAUSED), one):
        await until(lambda: "create Pod first" in paused(server).get("message", ""))
    why = "ConfigMap w-one waits for Pod first: it does not exist yet"
    assert paused(server)["message"] == (
        f"Would create Pod first; hold back ConfigMap w-one ({why})."
    )


async def test_a_child_that_is_not_wanted_any_more_stays_during_a_pause(server: ApiServer) -> None:
    def desired(thing: Widget, _: kr.Context[kr.Settings]) -> Any:
        return widgets.config_map(thing) if thing.spec.text else ()

    async with working_on(server, widget(), widgets.controller(desired)):
        await until(lambda: server.get(CONFIG_MAP, CHILD))
        server.edit(WIDGET, KEY, pause("true"))
        server.edit(WIDGET, KEY, edit(""))
        told = "Would delete ConfigMap w-one (it is not wanted any more)."
        await until(lambda: paused(server).get("message") == told)
        assert server.get(CONFIG_MAP, CHILD)

        server.edit(WIDGET, KEY, pause(None))
        await until(lambda: not server.get(CONFIG_MAP, CHILD))


async def test_nothing_outside_is_touched_during_a_pause(server: ApiServer) -> None:
    calls: list[str] = []
    one = widgets.controller()

    @one.sync()
    async def sync(*_: object) -> None:
        calls.append("sync")

    @one.finalize()
    async def finalize(*_: object) -> None:
        calls.append("finalize")

    def shows(text: str) -> bool:
        return bool(paused(server).get("message") == text)

    async with working_on(server, widget(annotations=PAUSED), one):
        await until(lambda: shows("Would put the finalizer on the Widget; sync the Widget."))
        assert calls == []
        server.edit(WIDGET, KEY, pause(None))
        await until(lambda: server.get(CONFIG_MAP, CHILD))
        server.edit(WIDGET, KEY, pause("true"))
        await until(lambda: "sync the Widget" in paused(server)["message"])
        done = list(calls)
        server.delete(WIDGET, KEY)
        await until(lambda: shows("Would finalize the Widget."))
        await asyncio.sleep(0.05)
        assert calls == done
        server.edit(WIDGET, KEY, pause(None))
        await until(lambda: server.get(WIDGET, KEY) is None)
    assert calls[-1] == "finalize"


def synced() -> Controller:
    one = widgets.controller()

    @one.sync(every=3600)
    async def sync(*_: object) -> str:
        return "booked"

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        fields = {"members": len(seen.children), "booking": seen.sync_result}
        return dataclasses.replace(kr.default_status(seen), fields=fields)

    return one


async def test_what_is_paused_before_sync_was_ever_called_is_not_ready(server: ApiServer) -> None:
    async with working_on(server, widget(annotations=PAUSED), synced()):
        await until(lambda: paused(server).get("message") == "Would sync the Widget.")
    said = ready(server.get(WIDGET, KEY))
    assert (said["status"], said["reason"]) == ("False", "Paused")


async def test_a_restart_during_a_pause_leaves_the_status_as_it_was(server: ApiServer) -> None:
    async with reconciled(server, widget(), synced()):
        pass
    before = (server.get(WIDGET, KEY) or {})["status"]
    server.edit(WIDGET, KEY, pause("true"))
    async with operating(server, synced()):
        await until(lambda: paused(server).get("message") == "Would sync the Widget.")
        now = (server.get(WIDGET, KEY) or {})["status"]
        assert (now["members"], now["booking"]) == (1, "booked")
        assert ready({"status": now}) == ready({"status": before})

        server.edit(WIDGET, KEY, edit("changed"))
        await until(lambda: ready(server.get(WIDGET, KEY)).get("reason") == "Paused")


async def test_an_author_may_have_a_condition_of_that_name(server: ApiServer) -> None:
    one = widgets.controller()

    @one.status
    def status(*_: Any) -> kr.Status:
        return kr.Status(True, "Fine", "Fine.", conditions=[kr.Condition("Paused", True, "Ours")])

    async with working_on(server, widget(), one):
        await until(lambda: paused(server).get("reason") == "Ours")
        server.edit(WIDGET, KEY, pause("true"))
        await until(lambda: paused(server)["reason"] == "Annotated")
        server.edit(WIDGET, KEY, pause(None))
        await until(lambda: paused(server)["reason"] == "Ours")


# --- a diff -------------------------------------------------------------------------------------


def fields(names: Iterable[str]) -> Raw:
    return {f"f:{name}": {} for name in names}


def test_what_the_operator_set_goes_and_what_others_set_stays() -> None:
    live = yaml.safe_load("""
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: one, namespace: ns, labels: {theirs: a}}
        data: {ours: a, former: b, theirs: c}
        template: {creationTimestamp: null, text: a}
        list:
        - {name: kept, default: 1, value: a}
        - {name: former, value: b}
        - {name: theirs, value: c}
    """)
    items = {f'k:{{"name":"{name}"}}': fields(["value"]) for name in ("kept", "former")}
    live["metadata"]["managedFields"] = [
        {"manager": NAME, "fieldsV1": {"f:data": fields(["ours", "former"]), "f:list": items}},
        {"manager": "other", "fieldsV1": {"f:data": fields(["theirs"])}},
    ]
    wanted = yaml.safe_load("""
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: one, namespace: ns}
        data: {ours: new}
        template: {text: a}
        list: [{name: kept, value: new}]
    """)

    changed = [line for line in diff(live, wanted, NAME).splitlines()[2:] if line[0] in "+-"]

    assert changed == [
        "-  former: b",
        "-  ours: a",
        "+  ours: new",
        "-  value: a",
        "-- name: former",
        "-  value: b",
        "+  value: new",
    ]


def test_no_value_of_a_secret_is_shown() -> None:
    live = {
        "apiVersion": "v1",
        "kind": SECRET.kind,
        "metadata": {"name": "one"},
        "data": {"same": "c2FtZQ==", "other": "b2xk"},
    }
    text = diff(live, {**live, "data": {"same": "c2FtZQ==", "other": "bmV3"}}, NAME)

    assert "-  other: '*** (before)'\n+  other: '*** (after)'\n   same: '***'\n" in text


def test_nor_is_the_copy_of_a_secret_that_kubectl_keeps_in_it() -> None:
    notes = {LAST_APPLIED: '{"data":{"word":"b2xk"}}', "theirs": "seen"}
    meta = {"name": "one", "annotations": notes}
    live = {"apiVersion": "v1", "kind": SECRET.kind, "metadata": meta, "data": {"word": "b2xk"}}
    text = diff(live, None, NAME)
    assert "b2xk" not in text
    assert "-    theirs: seen" in text
