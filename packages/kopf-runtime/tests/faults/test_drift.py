"""Whatever a plan says and the API server took, the object has; the API server itself is the judge.

Manifests are drawn, an operator makes them, a webhook alters some, plans change, and others edit
them in drawn ways, while it runs and while it does not. Then a server-side apply of the plan must
change nothing, a restart must write nothing, and `--dry-run` must have said what was written. What
is created once stays as others have left it.
"""

import asyncio
import copy
import json
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import kopf_runtime as kr
from faults import holders
from faults.manifests import (
    ADMITTED,
    EMPTY,
    FEATURES,
    KINDS,
    THING,
    Draw,
    admitted,
    definition,
    features,
)
from faults.test_situations import HOLDER, Holder
from faults.worlds import client_of
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_kit.testing.webhook import webhook
from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.records import Update
from kopf_runtime.watching.source import Source
from runtime.support.running import NAME, at_work, caches, operating

pytestmark = pytest.mark.api

APPLY_PATCH = "application/apply-patch+yaml"
#: What nobody's plan is compared in: the API server's own fields.
OWN = ("managedFields", "resourceVersion", "generation")
#: The names of marks: ours, and those of Kubernetes' own controllers, which run, too.
MARKS = (HOLDER.group, "app.kubernetes.io/managed-by", "deployment.kubernetes.io/")
#: How the API server refuses a map that becomes empty in an apply, and which one it is (B12).
_EMPTIED = re.compile(r'is invalid: ([\w.]+): Invalid value: "null"')
MODES = {"apply": Update.APPLY, "recreate": kr.RECREATE, "create": kr.CREATE}


def desired(holder: Holder, _: object) -> Iterable[Raw]:
    yield json.loads(holder.spec.text)


class Counting(Client):
    """A client that remembers which children it has written."""

    written: list[str]

    async def request(self, method: str, path: str, *args: Any, **options: Any) -> bytes:
        dry = "dryRun" in options.get("query", "")
        if method != "GET" and not dry and "/holders" not in path and "/events" not in path:
            self.written.append(f"{method} {path}")
        return await super().request(method, path, *args, **options)


@dataclass
class Child:
    """What is known of one child of the search."""

    name: str
    kind: Kind
    plan: Raw
    edits: list[str] = field(default_factory=list)
    #: The child, and whether an apply of the plan would have changed it, before an operator came.
    before: Raw = field(default_factory=dict)
    differed: bool = False
    planned_again: bool = False
    #: What it has to stay, if it is created once.
    left: Raw | None = None

    def edited(self, raw: Raw) -> None:
        """Take what others have made of it."""
        if self.left is not None:
            self.left = raw

    def __str__(self) -> str:
        return f"{json.dumps(self.plan)} after {self.edits}"


@dataclass
class Search:
    """A namespace with many objects that have one child each."""

    cluster: Cluster
    update: Any
    draw: Draw
    namespace: str = field(default_factory=lambda: f"drift-{secrets.token_hex(4)}")
    children: list[Child] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    #: The refusals of maps that were to be empty.
    emptied: int = 0
    #: How often each feature was met.
    met: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def webhook(self) -> AsyncIterator[None]:
        """Have a webhook change some of the children during the block."""

        async def opinion(review: Raw) -> list[Raw]:
            raw = review["object"]
            changes = admitted(raw)
            parts = (name for name in changes if changes[name] != raw.get(name))
            return [{"op": "add", "path": f"/{name}", "value": changes[name]} for name in parts]

        await self.begin()
        plurals = [(kind.group, kind.plural) for kind in KINDS]
        operations = ("CREATE", "UPDATE")
        async with webhook(
            self.cluster, self.namespace, opinion, operations=operations, kinds=plurals
        ):
            yield

    async def begin(self) -> None:
        await self.cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    async def create(self, plans: Iterable[Raw]) -> None:
        for number, plan in enumerate(plans):
            kind = next(kind for kind in KINDS if kind.kind == plan["kind"])
            child = Child(f"n-{number}", kind, plan)
            self.children.append(child)
        await self._each(self._plan)

    async def _plan(self, child: Child) -> None:
        """Have an object want what a child's plan says."""
        child.plan["metadata"]["name"] = child.name
        body = {
            "apiVersion": HOLDER.api_version,
            "kind": HOLDER.kind,
            "metadata": {"name": child.name},
            "spec": {"text": json.dumps(child.plan)},
        }
        path = HOLDER.path(self.namespace, child.name)
        await self.cluster.ask("PATCH", f"{path}?fieldManager=user&force=true", body, APPLY_PATCH)

    async def keep(self) -> None:
        """Remember what children that are created once have to stay."""
        for child in self.children if self.update is kr.CREATE else ():
            child.left, _ = await self.judge(child)

    async def replan(self, engine: Controller) -> None:
        """Have about every third object want something else of its child."""
        changed = [child for child in self.children if self.draw.random() < 0.35]
        for child in changed:
            child.plan = self.draw.another(child.plan, child.kind)
            child.planned_again = True
            await self._plan(child)
        await self.settle(engine)
        for child in changed:
            if found := _EMPTIED.search(self.messages[child.name]):
                assert "135841" in self.messages[child.name], self.messages[child.name]
                self.emptied += 1
                gone: Any = None
                for step in reversed(found[1].split(".")):
                    gone = {step: gone}
                await self.cluster.patch(self.path(child, "fieldManager=someone"), gone)
        await self.settle(engine)

    async def _each(self, act: Callable[[Child], Any]) -> None:
        await asyncio.gather(*map(act, self.children))

    def path(self, child: Child, query: str = "") -> str:
        return child.kind.path(self.namespace, child.name) + (f"?{query}" if query else "")

    @asynccontextmanager
    async def operator(self, *, working: bool = True) -> AsyncIterator[Controller]:
        one = Controller(HOLDER, Holder, None)
        for kind in KINDS:
            one.owns(kind, update=self.update, unready=lambda _: "")
        one.desired(desired)
        settings = kr.Settings(namespaces=(self.namespace,), resync_period=600)
        async with client_of(self.cluster, Counting, 60.0) as client:
            client.written = self.written = []
            client.may_write = lambda: working
            async with operating(client, one, settings=settings, working=working):
                async with asyncio.timeout(600):
                    await caches(one).first_lists()
                    yield one

    async def settle(self, one: Controller) -> None:
        """Wait until the operator has nothing to do; note what each object says."""
        quiet = 0
        while quiet < 8:
            told = {
                holder["metadata"]["name"]: condition
                for holder in await self.cluster.items(HOLDER.path(self.namespace))
                for condition in (holder.get("status") or {}).get("conditions") or ()
                if condition["type"] == "Ready"
            }
            self.reasons = {name: condition["reason"] for name, condition in told.items()}
            self.messages = {name: condition["message"] for name, condition in told.items()}
            idle = (
                at_work(one).queue.running
                and not len(at_work(one).queue)
                and not at_work(one).queue.longest_running()
            )
            quiet = quiet + 1 if idle and len(self.reasons) == len(self.children) else 0
            if quiet == 8 and not await self._is_seen(one):
                quiet = 0
            await asyncio.sleep(0.05)

    async def _is_seen(self, one: Controller) -> bool:
        """Return whether the operator knows the newest version of all: news may be late."""
        known = caches(one)
        sources: list[Source[Any]] = [known.owners, *known.children.values()]
        for source in sources:
            for raw in await self.cluster.items(source.kind.path(self.namespace)):
                meta = raw["metadata"]
                cached = source.cache.get((self.namespace, meta["name"]))
                if cached is not None and cached.version < int(meta["resourceVersion"]):
                    return False
        return True

    async def drop_refused(self) -> None:
        """Leave out what the API server does not take."""
        refused = [c for c in self.children if self.reasons[c.name] != "Reconciled"]
        for child in self.children:
            if child not in refused:
                self.met.update(set(features(child.plan)))
        for child in refused:
            self.children.remove(child)
            await self.cluster.remove(HOLDER.path(self.namespace, child.name))

    async def judge(self, child: Child) -> tuple[Raw, Raw]:
        """Return a child, and what an apply of its plan would make of it."""
        live = await self.cluster.ask("GET", self.path(child))
        if child.left is not None:
            return live, child.left
        plan = {**child.plan, "metadata": {**child.plan["metadata"], "name": child.name}}
        query = f"dryRun=All&force=true&fieldManager={NAME}"
        meta, names = live["metadata"], ("labels", "annotations", "ownerReferences")
        ours = {name: self._ours(meta.get(name)) for name in names if meta.get(name)}
        for name, value in ours.items():
            if isinstance(value, dict):
                value |= plan["metadata"].get(name) or {}
        plan["metadata"] = {**plan["metadata"], **ours}
        for without in (plan, _without_nulls(plan)):  # of a custom resource, it refuses them
            try:
                fresh = await self.cluster.ask(
                    "PATCH", self.path(child, query), without, APPLY_PATCH
                )
            except RefusedError as error:
                if "null" not in error.message:  # not beside what others have added
                    return live, live
            else:
                return live, fresh
        raise AssertionError(child)

    @staticmethod
    def _ours(part: Any) -> Any:
        """Return the marks among labels or annotations, and all owner references."""
        if isinstance(part, list):
            return part
        return {name: value for name, value in part.items() if name.startswith(MARKS)}

    async def edit(self) -> None:
        """Edit about three in four children as others."""
        await self._each(self._edit)

    async def _edit(self, child: Child) -> None:
        draw = Draw(self.draw.random())
        for _ in range(draw.choice([0, 1, 2, 3])):
            for _ in range(8):  # most of what is drawn is valid
                try:
                    child.edits.append(await self._edit_once(child, draw))
                except RefusedError:
                    continue
                break

    async def _edit_once(self, child: Child, draw: Draw) -> str:
        live = await self.cluster.ask("GET", self.path(child))
        manager = draw.choice(["kubectl-edit", "someone"])
        if child.kind == THING and draw.random() < 0.1:
            status = {"status": {"phase": draw.choice(["", "one", "two"])}}
            place = child.kind.path(self.namespace, child.name, "status")
            child.edited(await self.cluster.patch(f"{place}?fieldManager={manager}", status))
            return f"status {status}"
        if draw.random() < 0.03:
            nobody: Raw = {"metadata": {"managedFields": [{}]}}
            child.edited(await self.cluster.patch(self.path(child), nobody))
            return "no managed fields"
        edited = copy.deepcopy(live)
        path = draw.edit(edited, child.plan, HOLDER.group)
        if edited == live:
            raise RefusedError(422, {"message": "nothing was changed"})
        told, before, after = f"{manager}: {path}", _at(live, path), _at(edited, path)
        if draw.random() < 0.3 and path and all(isinstance(step, str) for step in path):
            part: Any = edited
            for step in path:
                part = part.get(step) if isinstance(part, dict) else None
            for step in reversed(path):
                part = {step: part}
            body = {"apiVersion": live["apiVersion"], "kind": live["kind"], **part}
            body["metadata"] = {**body.get("metadata", {}), "name": child.name}
            query = f"fieldManager={manager}&force=true"
            child.edited(
                await self.cluster.ask("PATCH", self.path(child, query), body, APPLY_PATCH)
            )
            self.met.update([*_done(before, after), "applied"])
            return f"{told} applied {json.dumps(part)}"
        query = f"fieldManager={manager}"
        child.edited(await self.cluster.ask("PUT", self.path(child, query), edited))
        self.met.update([*_done(before, after), "updated"])
        return f"{told} from {before} to {after}"

    async def look(self) -> None:
        """Note what each child is, and whether it is as planned."""
        await self._each(self._look)

    async def _look(self, child: Child) -> None:
        child.before, fresh = await self.judge(child)
        emptied = child.planned_again
        child.differed = any(_differences(_bare(child.before), _bare(fresh), emptied=emptied))

    async def check(self) -> None:
        """Each child whose object is reconciled is as planned."""
        await self._each(self._check)

    async def _check(self, child: Child) -> None:
        if self.reasons[child.name] == "Reconciled":
            live, fresh = await self.judge(child)
            told = [*_differences(_bare(live), _bare(fresh), emptied=child.planned_again)]
            assert not told, f"{self.update} {child}: {told}"

    def wrote(self, child: Child) -> list[str]:
        path = child.kind.path(self.namespace)
        names = f"{path}/{child.name}", f"POST {path}"
        return [call for call in self.written if call.endswith(names)]


def _at(part: Any, path: tuple[str | int, ...]) -> str:
    for step in path:
        try:
            part = part[step]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    return json.dumps(part)


def _done(before: str, after: str) -> Iterator[str]:
    """Yield what somebody has done with a value."""
    if after in EMPTY:
        yield f"{after} set"
    yield "removed" if after == "nothing" else "added" if before == "nothing" else "changed"


def _differences(live: Any, fresh: Any, path: str = "", *, emptied: bool) -> Iterator[str]:
    """Yield where an object differs from what it should be.

    If maps or lists were to be `emptied` by an apply, Kubernetes has removed them (#135841).
    """
    parts: list[Any] = []
    if isinstance(live, dict) and isinstance(fresh, dict):
        parts = [(live.get(n), fresh.get(n), f"{path}.{n}") for n in live.keys() | fresh.keys()]
    elif isinstance(live, list) and isinstance(fresh, list) and len(live) == len(fresh):
        parts = [(*pair, f"{path}[{n}]") for n, pair in enumerate(zip(live, fresh, strict=True))]
    elif live != fresh and not (emptied and live is None and fresh in ({}, [])):
        yield f"{path} is {json.dumps(live)} in place of {json.dumps(fresh)}"
    for part in parts:
        yield from _differences(*part, emptied=emptied)


def _bare(raw: Raw) -> Raw:
    """Return an object without what nobody plans: its controller may write the status meanwhile."""
    meta = {name: value for name, value in raw["metadata"].items() if name not in OWN}
    for part in ("labels", "annotations"):  # without the marks, which follow the plan
        kept = (meta.get(part) or {}).items()
        meta[part] = {name: value for name, value in kept if not name.startswith(MARKS)}
    return {**raw, "metadata": meta, "status": None}


def _without_nulls(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _without_nulls(v) for name, v in part.items() if v is not None}
    return [_without_nulls(item) for item in part] if isinstance(part, list) else part


async def search(cluster: Cluster, update: Any, draw: Draw, plans: Iterable[Raw]) -> Search:
    """Make these plans, have others edit them, and see what becomes of them."""
    one = Search(cluster, update, draw)
    async with one.webhook():
        await searched(one, plans)
    return one


async def searched(one: Search, plans: Iterable[Raw]) -> None:
    await one.create(plans)
    async with one.operator() as engine:
        await one.settle(engine)
    await one.drop_refused()
    await one.check()
    await one.keep()
    async with one.operator() as engine:
        await one.settle(engine)
        assert not one.written, "a restart wrote what nobody had edited"
        await one.edit()  # while it looks
        await one.settle(engine)
        await one.check()
        await one.replan(engine)
    await one.drop_refused()
    await one.check()

    await one.edit()  # while it does not
    await one.look()
    said = dict[str, list[str]]()
    async with one.operator(working=False) as engine:
        for child in one.children:
            said[child.name] = await at_work(engine).differences((one.namespace, child.name))
    async with one.operator() as engine:
        await one.settle(engine)
    await one.check()
    for child in one.children:
        wrote = (
            one.wrote(child)
            if one.update is Update.APPLY
            else [call for call in one.written if call.endswith(f"/{child.name}")]
        )
        assert bool(said[child.name]) == bool(wrote), f"{child}: {said[child.name]}, {wrote}"
        assert wrote or not child.differed, f"{child}"

    async with one.operator() as engine:
        await one.settle(engine)
    right = [child for child in one.children if one.reasons[child.name] == "Reconciled"]
    for child in right:
        assert not one.wrote(child), f"{child}"


@pytest.fixture
async def kinds(cluster: Cluster) -> Cluster:
    """Have the kinds of the search served."""
    for crd in (
        holders.definition(HOLDER, text={"type": "string"}),
        definition(holders.definition),
    ):
        await cluster.put(crd)
    for kind in (HOLDER, THING):
        await cluster.serves(kind)
    return cluster


async def drawn(cluster: Cluster, seed: int, count: int) -> None:
    """Search in all modes at once, and fail if a feature was not met."""
    print(f"seed {seed}, {count} manifests for each mode")  # noqa: T201 (a failure shows it)
    draws = {mode: Draw(f"{seed} {mode}") for mode in MODES}
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(search(cluster, MODES[mode], draw, draw.manifests(count)))
            for mode, draw in draws.items()
        ]
    searches = [task.result() for task in tasks]
    right = sum(reason == "Reconciled" for one in searches for reason in one.reasons.values())
    print(f"{right} are right, {sum(one.emptied for one in searches)} were to be emptied")  # noqa: T201
    met = sum((one.met for one in searches), Counter[str]())
    print({feature: met[feature] for feature in FEATURES})  # noqa: T201
    assert not [feature for feature in FEATURES if not met[feature]]


async def test_b1_b2_b12_t2_what_the_plan_says_the_object_has(kinds: Cluster) -> None:
    await drawn(kinds, 66, 30)


async def test_b1_what_others_add_to_a_set_that_admission_changes(kinds: Cluster) -> None:
    one = Search(kinds, Update.APPLY, Draw("no edits"))
    spec = {"set": ["a", "b"], "whole": {"a": "x", "b": ""}}
    plan = {"apiVersion": THING.api_version, "kind": THING.kind, "spec": spec}
    async with one.webhook():
        await one.create([{**plan, "metadata": {"annotations": {ADMITTED: "yes"}}}])
        async with one.operator() as engine:
            await one.settle(engine)
        (child,) = one.children
        await kinds.patch(one.path(child, "fieldManager=someone"), {"spec": {"set": ["other"]}})
        async with one.operator() as engine:
            await one.settle(engine)
        await one.check()
        async with one.operator() as engine:
            await one.settle(engine)
    assert not one.written


async def made(kinds: Cluster, data: Raw) -> tuple[Search, Child]:
    """Have an operator make a ConfigMap that others have not edited."""
    one = Search(kinds, Update.APPLY, Draw("no edits"))
    await one.begin()
    await one.create([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data}])
    async with one.operator() as engine:
        await one.settle(engine)
    return one, one.children[0]


async def test_b1_what_nobody_is_recorded_for_is_written_again(kinds: Cluster) -> None:
    one, child = await made(kinds, {"a": "x"})
    await kinds.patch(one.path(child), {"metadata": {"managedFields": [{}]}})
    async with one.operator() as engine:
        await one.settle(engine)
        await kinds.patch(one.path(child, "fieldManager=someone"), {"data": {"a": "y"}})
        await one.settle(engine)
    await one.check()


async def test_b1_a_null_that_others_have_applied_too_stays_what_it_was(kinds: Cluster) -> None:
    one, child = await made(kinds, {"x": None})
    null = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": None}}
    query = "fieldManager=someone&force=true"
    await kinds.ask("PATCH", one.path(child, query), null, APPLY_PATCH)
    async with one.operator() as engine:
        await one.settle(engine)
        await kinds.patch(one.path(child, "fieldManager=someone"), {"data": {"x": "x"}})
        await one.settle(engine)
    await one.check()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 108))
async def test_what_the_plan_says_the_object_has_in_more_cases(kinds: Cluster, seed: int) -> None:
    await drawn(kinds, seed, 150)
