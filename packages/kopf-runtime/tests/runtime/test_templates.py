"""Bad plans: what an author returns that cannot be is a condition, never a crash."""

import datetime
import gc
import weakref
from collections.abc import Iterable
from typing import Any

import pytest

import kopf_runtime as kr
from kopf_runtime.declaring.errors import PlanError
from kopf_runtime.declaring.kinds import CONFIG_MAP, Kind
from kopf_runtime.declaring.objects import ObjectMeta
from kopf_runtime.declaring.records import Owned, Update, Wanted
from kopf_runtime.working.templates import KEPT, Marks, Templates, _encoded
from runtime import widgets
from runtime.support.api_server import ApiServer
from runtime.support.running import at_work, caches, operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Raw, Widget, edit, widget

ONE = ("ns", "one")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
FLEET = Kind("example.dev", "v1", "fleets", "Fleet", False)


class Watched(Widget, weakref=True):
    """A Widget of which one can see whether it is still in memory."""


def child(name: Any = "c", kind: str = "ConfigMap", version: str = "v1", **meta: Any) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "data": {}}


def templates(manifests: Any, kind: Kind = WIDGET) -> Templates:
    owned = [
        Owned(owned_kind, kr.Object, Update.APPLY, lambda _: None, lambda _: "")
        for owned_kind in (CONFIG_MAP, CLUSTER_ROLE)
    ]

    def desired(thing: Any, _: Any) -> Any:
        return manifests(thing) if callable(manifests) else manifests

    return Templates(kind, Marks("tester", kind), owned, desired)


def make(manifests: Any, kind: Kind = WIDGET, text: str = "hello") -> tuple[Wanted, ...]:
    namespace = "ns" if kind.namespaced else ""
    meta = ObjectMeta("one", "uid-1", "7", namespace, 3)
    return templates(manifests, kind).make(Widget(meta, spec=widgets.Spec(text)))


def recursive() -> Raw:
    manifest = child()
    manifest["data"]["again"] = manifest
    return manifest


def failing(_: Any) -> Iterable[Raw]:
    yield child()
    raise ZeroDivisionError("an author's mistake")


def endless(_: Any) -> Iterable[Raw]:
    """Return far more children than are allowed, as for a size that a tenant wrote."""
    for number in range(100_000):
        yield child(f"c-{number}")
    raise ZeroDivisionError("all of them were asked for")


def first(names: list[str]) -> Raw:
    return child(next(name for name in names if name.startswith("c")))


class Counted:
    """An iterator that is written in Python, and ends as it should."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __iter__(self) -> "Counted":
        return self

    def __next__(self) -> str:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return f"c-{self._left}"


BAD: dict[str, tuple[Any, str]] = {
    "two of one name": ([child(), child()], "two children ConfigMap c"),
    "another namespace": ([child(namespace="other")], "namespace other; a child has the namespace"),
    "an unknown kind": ([child(kind="Secret")], "a Secret of v1, a kind that the operator does"),
    "another version": ([child(version="v2")], "does not own"),
    "a kind that is no text": ([{**child(), "kind": ["ConfigMap"]}], "does not own"),
    "no manifest": (["x"], "a str that is not a manifest"),
    "no metadata": ([{"apiVersion": "v1", "kind": "ConfigMap"}], "not a manifest"),
    "nothing": ([None], "a NoneType that is not a manifest"),
    "not even a list": (5, "the plan failed: TypeError"),
    "no name": ([child(None)], "whose name None is not valid"),
    "a bad name": ([child("Big_One")], "whose name 'Big_One' is not valid"),
    "a long name": ([child("a" * 254)], "is not valid"),
    "a date": ([{**child(), "data": {"at": object()}}], "ConfigMap c is not JSON"),
    "itself": ([recursive()], "ConfigMap c is not JSON"),
    "keys that are no texts": ([{**child(), "data": {(1, 2): "x"}}], "ConfigMap c is not JSON"),
    "labels that are a list": ([child(labels=["a"])], "labels"),
    "annotations that are a text": ([child(annotations="a")], "annotations"),
    "an exception": (failing, "the plan failed: ZeroDivisionError: an author's mistake"),
    "an end by mistake": (
        lambda _: map(first, [["c"], ["other"]]),
        "the plan failed: RuntimeError: a function raised",
    ),
    "too many": ((child(f"c-{n}") for n in range(1001)), "more than 1000 children"),
    "children without an end": (endless, "more than 1000 children"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_plan_that_cannot_be_says_what_is_wrong(bad: str) -> None:
    manifests, complaint = BAD[bad]

    with pytest.raises(PlanError, match=complaint):
        make(manifests)


def test_an_iterator_of_an_author_s_may_end() -> None:
    assert len(make(lambda _: map(child, Counted(3)))) == 3
    assert len(make(lambda _: filter(None, map(child, ["a", "b"])))) == 2


@pytest.mark.parametrize("namespace", ["x/secrets/y?a=", {"a": 1}, 5, "Big"], ids=str)
def test_a_namespace_that_is_not_valid_is_refused(namespace: object) -> None:
    """It becomes a part of the path, and an author may take it from what a tenant wrote."""
    with pytest.raises(PlanError, match=r"the namespace .* of ConfigMap c is not valid"):
        make([child(namespace=namespace)], FLEET)


def test_a_child_of_a_clusterwide_object_says_its_namespace_if_it_needs_one() -> None:
    with pytest.raises(PlanError, match="must say the namespace of ConfigMap c"):
        make([child()], FLEET)

    role = child(kind="ClusterRole", version="rbac.authorization.k8s.io/v1")
    dated = {**child(namespace="here"), "data": {"at": datetime.date(2026, 1, 1)}}
    made = make([dated, role], FLEET)
    assert [(wanted.kind, wanted.key) for wanted in made] == [
        (CONFIG_MAP, ("here", "c")),
        (CLUSTER_ROLE, ("", "c")),
    ]
    assert made[0].template


def test_another_manifest_makes_another_template_and_another_generation_does_not() -> None:
    one, same, other = (make([{**child(), "data": {"a": text}}])[0] for text in ("1", "1", "2"))
    made = templates([child()])
    sooner, later = (
        made.make(Widget(ObjectMeta("one", "uid-1", "7", "ns", generation)))[0].template
        for generation in (1, 2)
    )

    assert one.template == same.template != other.template
    assert sooner == later


def test_the_marks_of_a_kind_of_any_length_are_names_of_labels() -> None:
    def names(kind: str) -> list[str]:
        marks = Marks("tester", Kind("example.dev", "v1", "longs", kind))
        return [mark.partition("/")[2] for mark in (marks.uid, marks.generation, marks.name)]

    assert names("L" * 52)[1] == "l" * 52 + "-generation"
    longest, other = names("L" * 63), names("L" * 62 + "M")
    assert max(map(len, longest)) == 63
    assert not {*longest} & {*other}


def test_m3_manifests_are_kept_for_a_while_only() -> None:
    many = templates(lambda thing: [{**child(), "data": {"text": thing.spec.text}}])
    wanted = [
        many.make(
            Widget(
                ObjectMeta("one", f"uid-{n}", "7", "ns", 3), spec=widgets.Spec(f"{n}" + "x" * 65536)
            )
        )
        for n in range(200)
    ]

    kept = sum(len(body) for (made,) in wanted if (body := many.body(made)) is not None)
    assert kept <= KEPT
    assert many.body(wanted[-1][0]) is not None
    assert many.body(wanted[0][0]) is None


async def test_a_standby_keeps_no_manifest_that_is_not_wanted_any_more(server: ApiServer) -> None:
    def wanted() -> tuple[Wanted, ...]:
        owner = caches(standby).owners.cache.get(ONE)
        return owner.wanted if owner is not None else ()

    def kept(children: tuple[Wanted, ...]) -> list[bool]:
        return [at_work(standby).templates.body(child) is not None for child in children]

    standby = widgets.controller()
    server.put(WIDGET, widget(text="old"))
    async with operating(server, standby, working=False):
        await until(lambda: kept(wanted()) == [True])
        old = wanted()
        server.edit(WIDGET, ONE, edit("new"))
        await until(lambda: wanted() != old)
        assert kept(old) + kept(new := wanted()) == [False, True]

        server.remove(WIDGET, ONE)
        await until(lambda: not wanted())
        assert kept(new) == [False]


def test_a_plan_that_waits_keeps_nothing_of_its_object_in_memory() -> None:
    def wait(thing: Any) -> Iterable[Raw]:
        things.append(weakref.ref(thing))
        raise kr.Wait("Busy", "It is busy.", after=5)

    things = list[weakref.ref[Any]]()
    meta = ObjectMeta("one", "uid-1", "7", "ns", 3)
    _, wait_kept = templates(wait).plan(Watched(meta))
    gc.collect()

    assert isinstance(wait_kept, kr.Wait)
    assert (wait_kept.reason, wait_kept.message, wait_kept.after) == ("Busy", "It is busy.", 5)
    assert things[0]() is None


@pytest.mark.parametrize("bad", ["two of one name", "an exception", "labels that are a list"])
async def test_a_bad_plan_is_a_condition_and_holds_up_no_other(server: ApiServer, bad: str) -> None:
    def desired(thing: Widget, _: object) -> Iterable[Raw]:
        manifests: Any = BAD[bad][0]
        if thing.spec.text == "bad":
            return manifests(thing) if callable(manifests) else manifests  # type: ignore[no-any-return]
        return widgets.config_map(thing)

    def kinds_of_events() -> set[tuple[str, str]]:
        return {(event["type"], event["reason"]) for event in server.events}

    server.put(WIDGET, widget("bad", text="bad"))
    server.put(WIDGET, widget())
    async with operating(server, widgets.controller(desired)):
        await until(lambda: server.get(CONFIG_MAP, ("ns", "w-one")))
        await until(lambda: widgets.ready(server.get(WIDGET, ("ns", "bad"))))
        told = widgets.ready(server.get(WIDGET, ("ns", "bad")))

        server.edit(WIDGET, ("ns", "bad"), widgets.edit("good"))
        await until(lambda: server.get(CONFIG_MAP, ("ns", "w-bad")))
        await until(lambda: ("Warning", "InvalidPlan") in kinds_of_events())

    assert (told["status"], told["reason"]) == ("False", "InvalidPlan")


def test_d15_the_next_version_of_the_api_replaces_no_child() -> None:
    (before,), (after,) = make([child()]), make([child()], WIDGET._replace(version="v2"))

    assert before.template == after.template


@pytest.mark.parametrize("texts", [None, [], {"a": 1}, {"a": "\ud800"}, "text"])
def test_d9_texts_of_a_secret_that_are_none_are_left_to_be_refused(texts: Any) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": texts, "data": {"b": "Yg=="}}

    assert _encoded(secret) == secret
