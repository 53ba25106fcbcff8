"""A paused object: nothing but its status is written, which tells what would be done."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import kopf_runtime as kr
from kopf_runtime.declaring.conditions import condition
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, POD
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, ready, widget

KEY, CHILD = ("ns", "one"), ("ns", "w-one")
PAUSED = {"example.dev/paused": "true"}
STATUS = "PATCH /apis/example.dev/v1/namespaces/ns/widgets/one/status"


def paused(server: ApiServer) -> Any:
    return condition((server.get(WIDGET, KEY) or {}).get("status") or {}, "Paused")


def pause(value: str | None) -> Callable[[Raw], None]:
    def change(raw: Raw) -> None:
        raw["metadata"]["annotations"] = {"example.dev/paused": value} if value else {}

    return change


async def test_what_would_be_done_is_told_and_done_once_the_pause_ends(server: ApiServer) -> None:
    server.put(WIDGET, widget(annotations=PAUSED))
    async with operating(server, widgets.controller()):
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
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": {}}

    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP, after=(POD,))
    one.owns(POD)
    one.desired(desired)
    server.put(WIDGET, widget(annotations=PAUSED))
    async with operating(server, one):
        await until(lambda: "create Pod first" in paused(server).get("message", ""))
    why = "ConfigMap w-one waits for Pod first: it does not exist yet"
    assert paused(server)["message"] == (
        f"Would create Pod first; hold back ConfigMap w-one ({why})."
    )


async def test_a_child_that_is_not_wanted_any_more_stays_during_a_pause(server: ApiServer) -> None:
    def desired(thing: Widget, _: kr.Context[kr.Settings]) -> Any:
        return widgets.config_map(thing) if thing.spec.text else ()

    server.put(WIDGET, widget())
    async with operating(server, widgets.controller(desired)):
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
    one = Controller(WIDGET, Widget, None)
    one.owns(CONFIG_MAP)
    one.desired(widgets.config_map)

    @one.sync()
    async def sync(*_: object) -> None:
        calls.append("sync")

    @one.finalize()
    async def finalize(*_: object) -> None:
        calls.append("finalize")

    def shows(text: str) -> bool:
        return bool(paused(server).get("message") == text)

    server.put(WIDGET, widget(annotations=PAUSED))
    async with operating(server, one):
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
    server.put(WIDGET, widget(annotations=PAUSED))
    async with operating(server, synced()):
        await until(lambda: paused(server).get("message") == "Would sync the Widget.")
    said = ready(server.get(WIDGET, KEY))
    assert (said["status"], said["reason"]) == ("False", "Paused")


async def test_a_restart_during_a_pause_leaves_the_status_as_it_was(server: ApiServer) -> None:
    server.put(WIDGET, widget())
    async with operating(server, synced()):
        await until(lambda: ready(server.get(WIDGET, KEY)).get("status") == "True")
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

    server.put(WIDGET, widget())
    async with operating(server, one):
        await until(lambda: paused(server).get("reason") == "Ours")
        server.edit(WIDGET, KEY, pause("true"))
        await until(lambda: paused(server)["reason"] == "Annotated")
        server.edit(WIDGET, KEY, pause(None))
        await until(lambda: paused(server)["reason"] == "Ours")
