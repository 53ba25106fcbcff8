"""How a kind of children is owned: order, optional kinds, what is retained, what is replaced.

And what is made from a child's template, such as a Deployment's Pods.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

import kopf_runtime as kr
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, DEPLOYMENT, JOB, POD
from kopf_runtime.declaring.records import MANAGED_BY, Owner, Update, Wanted
from kopf_runtime.reporting.status import why_unready
from kopf_runtime.watching import observer
from kopf_runtime.working import observe
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import NAME, at_work, caches, operating
from runtime.support.waiting import until
from runtime.test_data import (
    CLAIM,
    FORBIDDEN,
    KEY,
    MONITOR,
    NOT_FOUND,
    PVC,
    claim,
    deletions,
    so_many,
    stored,
)
from runtime.widgets import (
    UID,
    WIDGET,
    Raw,
    Widget,
    edit,
    is_ready,
    manifest,
    otherwise,
    readiness,
    reconciled,
    widget,
    working_on,
)

NAMED = "example.dev/widget-name"
INVALID = RefusedError(422, "Invalid", "spec: Forbidden: is immutable")
KINDS = (WIDGET, PVC, MONITOR, DEPLOYMENT)


def owning(desired: Callable[..., Iterable[Raw]], **owned: Raw) -> Controller:
    """A controller that owns these kinds, each with what `owns` is told."""
    kinds = {"claims": PVC, "monitors": MONITOR, "config_maps": CONFIG_MAP, "pods": POD}
    one = Controller(WIDGET, Widget, None)
    for name, options in owned.items():
        one.owns(kinds[name], **{"prune": True, **options})
    one.desired(desired)
    return one


def child(kind: kr.Kind, thing: Widget, **content: Any) -> Raw:
    return manifest(kind, f"w-{thing.metadata.name}", **content)


def both(thing: Widget, _: object) -> Iterable[Raw]:
    """The one that comes later is planned first."""
    text = {"text": thing.spec.text}
    return child(CONFIG_MAP, thing, data=text), child(MONITOR, thing, spec=text)


def condition(type_: str, status: Any, **further: str) -> Raw:
    return {"conditions": [{"type": type_, "status": status, **further}]}


# --- order ----------------------------------------------------------------------------------------


def say(server: ApiServer, status: str) -> None:
    ready = condition("Ready", status)
    server.edit(MONITOR, CLAIM, lambda raw: raw.update(status=ready))


async def test_a_child_comes_after_those_that_are_ready(server: ApiServer) -> None:
    server.admission = lambda kind, raw: (
        raw.setdefault("status", condition("Ready", "False")) if kind == MONITOR else None
    )
    server.put(WIDGET, widget(text="a"))
    one = owning(both, config_maps={"after": (MONITOR,)}, monitors={})
    async with operating(server, one):
        await until(lambda: readiness(server).get("reason") == "Waiting")
        message = readiness(server)["message"]
        assert message == "ConfigMap w-one waits for ServiceMonitor w-one: its Ready is False."
        assert server.get(CONFIG_MAP, CLAIM) is None
        say(server, "True")
        await until(lambda: is_ready(server))

        def starts_again(kind: kr.Kind, raw: Raw) -> None:
            if kind == MONITOR and raw["spec"] == {"text": "b"}:
                raw["status"] = condition("Ready", "False")

        server.admission = starts_again
        server.edit(WIDGET, KEY, edit("b"))
        await until(lambda: readiness(server).get("reason") == "Waiting")
        assert stored(server, CONFIG_MAP, CLAIM)["data"] == {"text": "a"}
        server.admission = lambda *_: None
        say(server, "True")
        await until(lambda: stored(server, CONFIG_MAP, CLAIM)["data"] == {"text": "b"})
        await until(lambda: is_ready(server))

        say(server, "False")  # nothing is due, so nothing waits
        await until(lambda: readiness(server).get("reason") == "NotReady")


async def test_c19_children_that_wait_for_others_cost_no_request_and_one_look_at_each(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def many(thing: Widget, _: object) -> Iterable[Raw]:
        for number in range(30):
            for made in both(thing, None):
                made["metadata"]["name"] += f"-{number:02}"
                yield made

    def last_is_unready(kind: kr.Kind, raw: Raw) -> None:
        if kind == MONITOR and raw["metadata"]["name"] == "w-one-29":
            raw["status"] = condition("Ready", "False")

    looks = list[object]()

    def look(child: Any) -> str:
        looks.append(child)
        return why_unready(child)

    monkeypatch.setattr("kopf_runtime.working.decide.why_unready", look)
    server.admission = last_is_unready
    server.put(WIDGET, widget())
    one = owning(many, config_maps={"after": (MONITOR,)}, monitors={})
    async with operating(server, one) as operator:
        await until(lambda: readiness(server).get("reason") == "Waiting")
        looks.clear()
        server.requests.clear()
        before = operator.reconciles("requeue_after")
        at_work(one).queue.add(KEY)
        await until(lambda: operator.reconciles("requeue_after") > before)

        assert not [str(request) for request in server.requests if "watch" not in request.query]
        assert 0 < len(looks) <= 30 * (operator.reconciles("requeue_after") - before)


async def test_a_check_is_on_time_while_a_child_waits_or_is_refused(server: ApiServer) -> None:
    server.admission = lambda kind, raw: (
        raw.setdefault("status", condition("Ready", "False")) if kind == MONITOR else None
    )
    one, calls = owning(both, config_maps={"after": (MONITOR,)}, monitors={}), list[float]()

    @one.check(every=0.05)
    async def check(_: Widget, context: kr.CallContext[Any]) -> int:
        calls.append(context.now)
        return len(calls) // 4  # the children are planned again because of it

    async with working_on(server, widget(text="a"), one):
        await until(lambda: readiness(server).get("reason") == "Waiting")
        enough = len(calls) + 5
        await until(lambda: len(calls) > enough)
        assert readiness(server)["reason"] == "Waiting"

        server.refuse("PATCH", "/configmaps/", RefusedError(403, "Forbidden"), float("inf"))
        say(server, "True")
        await until(lambda: readiness(server).get("reason") == "Forbidden")
        enough = len(calls) + 5
        await until(lambda: len(calls) > enough)


# --- optional kinds -------------------------------------------------------------------------------


async def test_an_optional_kind_is_used_while_it_is_served(server: ApiServer) -> None:
    server.refuse("GET", "/servicemonitors$", NOT_FOUND, times=float("inf"))
    server.put(WIDGET, widget())
    one = owning(both, monitors={"optional": True}, config_maps={"after": (MONITOR,)})
    serves: list[tuple[bool, bool]] = []

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        serves.append((seen.serves(CONFIG_MAP), seen.serves(MONITOR)))
        return kr.default_status(seen)

    async with operating(server, one) as operator:
        await until(lambda: is_ready(server))
        assert caches(one).unserved() == ([], 1)
        labels = {"resource": MONITOR.plural, "namespace": ""}
        assert operator.metric("unserved", **labels) == 0
        server.answers.clear()
        assert serves[-1] == (True, False)
        await until(lambda: server.get(MONITOR, CLAIM))
        await until(lambda: serves[-1] == (True, True))
        assert is_ready(server)


async def test_an_optional_kind_without_a_right_to_it_is_told(server: ApiServer) -> None:
    server.refuse("GET", "/servicemonitors$", FORBIDDEN, times=float("inf"))
    server.put(WIDGET, widget())

    async with operating(server, owning(both, monitors={"optional": True}, config_maps={})):
        await until(lambda: readiness(server).get("reason") == "KindNotServed")


async def test_to_ask_for_a_kind_that_is_not_owned_is_told(server: ApiServer) -> None:
    one = otherwise(owning(claim, claims={}))

    @one.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        return claim(thing, None) if context.serves(POD) else ()

    async with working_on(server, widget(text="1Gi"), one):
        await until(
            lambda: "Pod is not owned; declare it by" in readiness(server).get("message", "")
        )


async def test_so_many_children_cost_no_square_of_their_number(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Owner] = []

    def counted(owner: Owner, children: Any) -> list[Wanted]:
        calls.append(owner)
        return observer.served(owner, children)

    monkeypatch.setattr(observe, "served", counted)
    async with reconciled(server, widget(text="100"), owning(so_many, claims={})):
        pass
    assert len(calls) < 100


@pytest.mark.parametrize(
    ("stepwise", "prune", "fated"), [(True, None, True), (True, False, False), (False, None, None)]
)
def test_what_a_step_leaves_out_goes_at_once_unless_its_author_keeps_it(
    stepwise: bool, prune: bool | None, fated: bool | None
) -> None:
    owned = owning(so_many, config_maps={"prune": prune}).declaration.owned[CONFIG_MAP]
    declared: Any = SimpleNamespace(stepwise=stepwise)
    assert observe._fated(declared, owned).prune is fated


class Done(kr.Fields, frozen=True):
    done: bool = False


async def test_a_job_that_its_time_to_live_removed_is_not_run_again() -> None:
    """As docs/runtime.md says."""
    one = Controller(WIDGET, Widget, None)
    one.owns(JOB, update=kr.CREATE, prune=False)

    @one.desired(stepwise=True)
    def desired(thing: Widget, context: kr.StepContext[Any]) -> Iterable[Raw]:
        if not context.last(Done).done:
            yield child(JOB, thing)

    @one.status
    def status(_: Any, seen: kr.Observed) -> kr.Status:
        completed = seen.child is not None and not seen.child.unready
        if completed or seen.last(Done).done:
            return kr.Status(True, "Loaded", "The Job has completed.", Done(done=True))
        return kr.default_status(seen)

    async with ApiServer(WIDGET, JOB).running() as server:
        async with working_on(server, widget(), one):
            await until(lambda: server.get(JOB, CLAIM))
            done = condition("Complete", "True")
            server.edit(JOB, CLAIM, lambda raw: raw.update(status=done))
            await until(lambda: is_ready(server))
            assert server.get(JOB, CLAIM) is not None
            server.remove(JOB, CLAIM)
            server.edit(WIDGET, KEY, edit("later"))
            await until(lambda: readiness(server).get("observedGeneration") == 2)
        async with operating(server, one):  # a restart
            server.edit(WIDGET, KEY, edit("again"))
            await until(lambda: readiness(server).get("observedGeneration") == 3)

    assert server.get(JOB, CLAIM) is None
    assert is_ready(server)
    assert deletions(server) == []


# --- what is retained -----------------------------------------------------------------------------


MODES = pytest.mark.parametrize("update", [Update.APPLY, kr.CREATE])


def lose(mark: str, value: str = "") -> Callable[[Raw], None]:
    """Return what removes a label or an annotation, or gives it another value."""

    def change(raw: Raw) -> None:
        marks = raw["metadata"]["labels" if mark == UID else "annotations"]
        del marks[mark]
        marks |= {mark: value} if value else {}

    return change


@MODES
@pytest.mark.parametrize("harm", [lose(NAMED), lose(NAMED, "another"), lose(UID)])
async def test_a_retained_child_gets_its_marks_back(
    server: ApiServer, update: Update, harm: Callable[[Raw], None]
) -> None:
    server.put(WIDGET, widget(text="1Gi"))
    one = owning(claim, claims={"deletion_policy": kr.RETAIN, "update": update})
    async with operating(server, one):
        await until(lambda: is_ready(server))
        before = stored(server, PVC, CLAIM)["metadata"]
        marks = before["labels"][UID], before["annotations"][NAMED]
        server.edit(PVC, CLAIM, harm)

        def has_marks() -> bool:
            meta = stored(server, PVC, CLAIM)["metadata"]
            return (meta["labels"].get(UID), meta["annotations"].get(NAMED)) == marks

        await until(lambda: has_marks() and is_ready(server))
    assert stored(server, PVC, CLAIM)["metadata"]["uid"] == before["uid"]


def fate(thing: Widget) -> Any:
    return {"keep": kr.RETAIN, "drop": kr.DELETE}.get(thing.spec.text)


async def test_an_object_whose_child_has_no_known_fate_is_left_alone(server: ApiServer) -> None:
    server.put(WIDGET, widget(text="drop"))
    async with operating(server, owning(claim, claims={"deletion_policy": fate})):
        await until(lambda: is_ready(server))
        before = stored(server, PVC, CLAIM)
        server.edit(WIDGET, KEY, edit("perhaps"))
        await until(lambda: readiness(server).get("reason") == "InvalidPlan")
    assert (
        "deletion_policy of PersistentVolumeClaim returned None; use"
        in readiness(server)["message"]
    )
    assert stored(server, PVC, CLAIM) == before


async def test_a_child_that_is_to_outlive_its_owner_loses_a_reference_that_others_have_set(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "theirs"}

    def refer(raw: Raw) -> None:
        raw["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
        raw["metadata"]["ownerReferences"].append(theirs)

    async def compete(request: web.Request) -> None:
        if "merge" in request.content_type and request.path.endswith("/w-one") and not raced:
            raced.append(server.edit(PVC, CLAIM, lambda raw: raw["metadata"].update(finalizers=[])))

    def references() -> Any:
        return stored(server, PVC, CLAIM)["metadata"].get("ownerReferences")

    raced = list[Raw]()
    server.answers.append(compete)

    server.put(WIDGET, widget(text="drop"))
    async with operating(server, owning(claim, claims={"deletion_policy": fate})):
        await until(lambda: is_ready(server))
        server.edit(PVC, CLAIM, refer)
        server.edit(WIDGET, KEY, edit("keep"))
        await until(lambda: references() == [theirs] and is_ready(server))
    assert raced
    assert "The reconcile failed" not in caplog.text


# --- what cannot be changed in place --------------------------------------------------------------


async def asked(server: ApiServer, method: str) -> list[Raw]:
    """Record the bodies of the requests of a method."""
    bodies: list[Raw] = []

    async def answer(request: web.Request) -> None:
        if request.method == method and "persistentvolumeclaims" in request.path:
            bodies.append(await request.json())

    server.answers.insert(0, answer)
    return bodies


@pytest.mark.parametrize(
    ("mode", "policy"), [(kr.RECREATE, "Background"), (kr.ORPHAN, "Orphan")], ids=str
)
async def test_an_immutable_child_is_made_again(server: ApiServer, mode: Any, policy: str) -> None:
    async with reconciled(server, widget(text="1Gi"), owning(claim, claims={"on_immutable": mode})):
        before = stored(server, PVC, CLAIM)["metadata"]
        bodies = await asked(server, "DELETE")
        server.refuse("PATCH", "claims/w-one$", INVALID)
        server.edit(WIDGET, KEY, edit("2Gi"))
        await until(lambda: readiness(server).get("observedGeneration") == 2 and is_ready(server))

        assert bodies == [
            {
                "propagationPolicy": policy,
                "preconditions": {
                    "uid": before["uid"],
                    "resourceVersion": before["resourceVersion"],
                },
            }
        ]
        now = stored(server, PVC, CLAIM)
        assert now["spec"]["resources"]["requests"]["storage"] == "2Gi"
        await until(lambda: server.events)
        why = "a field of the PersistentVolumeClaim cannot be changed in place"
        await until(lambda: any(why in event["message"] for event in server.events))


@pytest.mark.parametrize("mode", [None, kr.ORPHAN], ids=str)
async def test_s2_a_change_that_no_new_child_could_have_is_told(
    server: ApiServer, mode: Any
) -> None:
    async with reconciled(server, widget(text="1Gi"), owning(claim, claims={"on_immutable": mode})):
        before = stored(server, PVC, CLAIM)
        # Without `on_immutable`, it is not even asked whether another child could be made so.
        for method in ("PATCH", "POST") if mode else ("PATCH",):
            server.refuse(method, "claims(/w-one)?$", INVALID, times=float("inf"))
        server.edit(WIDGET, KEY, edit("2Gi"))
        await until(lambda: readiness(server).get("reason") == "Invalid")
    assert stored(server, PVC, CLAIM) == before
    assert deletions(server) == []


# --- what is made from a child's template ---------------------------------------------------------


def deploying(**template: Any) -> Controller:
    """Return a controller of Widgets that tells the names of their Pods, and which are ready."""
    one = Controller(WIDGET, Widget, None)
    one.owns(DEPLOYMENT)
    one.descendants(POD, kr.Conditioned, transform=lambda pod: pod.holds("Ready"))
    spec = {"template": {**template, "spec": {"containers": []}}}
    one.desired(lambda thing, _: [child(DEPLOYMENT, thing, spec=spec)])

    @one.status
    def status(_: object, seen: kr.Observed) -> kr.Status:
        pods = seen.descendants[POD]
        names = {"pods": [pod.key[1] for pod in pods], "ready": sum(pod.view for pod in pods)}
        return kr.Status(True, "Seen", "They are seen.", names)

    return one


@pytest.mark.parametrize("labels", [{"app": "w"}, {}])
async def test_status_sees_the_pods_of_its_own_deployment_by_name(
    server: ApiServer, labels: dict[str, str]
) -> None:
    def template(name: str) -> Raw:
        found: Raw = stored(server, DEPLOYMENT, ("ns", f"w-{name}"))["spec"]["template"]["metadata"]
        return found

    def make_pod(name: str, of: str, ready: str = "True", namespace: str = "ns") -> None:
        """Make a Pod as a ReplicaSet does: with the metadata of the template."""
        meta = {**template(of), "namespace": namespace, "name": name}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        server.put(POD, {"metadata": meta, "spec": {"containers": []}, "status": status})

    def seen(name: str) -> tuple[list[str], int]:
        status = (server.get(WIDGET, ("ns", name)) or {}).get("status") or {}
        return status.get("pods", []), status.get("ready", 0)

    for name in ("one", "two"):
        server.put(WIDGET, widget(name))
    more = {"metadata": {"labels": labels}} if labels else {}  # the marks need it
    async with operating(server, deploying(**more)):
        await until(lambda: len(server.all(DEPLOYMENT)) == 2)
        make_pod("b", "one")
        make_pod("a", "one", ready="False")
        make_pod("c", "two")
        make_pod("copied", "one", namespace="elsewhere")  # which counts for nobody

        await until(lambda: seen("one") == (["a", "b"], 1) and seen("two") == (["c"], 1))
        server.delete(POD, ("ns", "b"))
        await until(lambda: seen("one") == (["a"], 0))

    uid = stored(server, WIDGET, KEY)["metadata"]["uid"]
    assert (labels | {UID: uid}).items() <= template("one")["labels"].items()


async def test_the_name_that_a_pod_claims_is_kept_if_it_can_be_one(server: ApiServer) -> None:
    one = deploying()
    async with operating(server, one):
        meta = {
            "namespace": "ns",
            "name": "forged",
            "labels": {MANAGED_BY: NAME, UID: "u"},
            "annotations": {NAMED: "n" * 250_000},
        }
        server.put(POD, {"metadata": meta, "spec": {"containers": []}})

        pods = caches(one).descendants[POD].cache
        await until(lambda: pods.get(("ns", "forged")))
        assert [pod.parent for pod in pods] == [""]
