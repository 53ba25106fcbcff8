"""A walk through everything that can happen to marks: data is deleted only for its own object.

Others set, remove, swap and copy labels, annotations, owner references and field managers of the
children of several objects, while the operator is restarted, misses events, and cannot list kinds.
`VAULTS_SEED` repeats a walk.
"""

import asyncio
import json
import os
import random
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from signal import Signals
from typing import Any, ClassVar

import pytest

from faults import vaults
from faults.holders import MEMBERS, definition
from faults.vaults import CLAIM, PART
from kopf_kit.testing import calls
from kopf_kit.testing.calls import Write
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import ELECT, World
from kopf_runtime.declaring.kinds import CONFIG_MAP, SECRET, STATEFUL_SET, Kind

pytestmark = pytest.mark.api

DATA = (SECRET, CLAIM, STATEFUL_SET, PART)
OWNERS = (vaults.vaults.kind, vaults.estates.kind)
EVERY = {OWNERS[0]: (*DATA, CONFIG_MAP), OWNERS[1]: (SECRET, CLAIM)}
REPLICAS = 2


class Vaults(Parent):
    """The operator of vaults.py."""

    program = (vaults.__file__,)
    manager = vaults.manager
    lease = "vaults"
    fails: ClassVar = {}

    def install(self) -> list[Raw]:
        return [*super().install(), definition(PART, members=MEMBERS)]

    def spec(self, text: str) -> Raw:
        return {"text": text}


SUBJECT = Vaults()


@dataclass
class Owned:
    """An object of the operator, and what it wanted when."""

    kind: Kind
    name: str
    #: The uid, or nothing while it is away.
    uid: str = ""
    #: The kinds that it wants from a moment on.
    wanted: list[tuple[float, str]] = field(default_factory=list)

    @property
    def word(self) -> str:
        return self.kind.kind.lower()

    @property
    def marks(self) -> tuple[str, str]:
        return f"example.dev/{self.word}-uid", f"example.dev/{self.word}-name"

    @property
    def child(self) -> str:
        return f"{self.word}-{self.name}"

    def some(self, left_out: Collection[Kind] = ()) -> str:
        """Return the plurals of the kinds of its children, without some."""
        return " ".join(kind.plural for kind in EVERY[self.kind] if kind not in left_out)

    def reference(self) -> Raw:
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }

    def asked_for(self, kind: Kind, since: float, until: float) -> bool:
        """Return whether it did not want a kind at a moment of this time, while it was there."""
        spans = zip(self.wanted, [*self.wanted[1:], (float("inf"), "")], strict=True)
        return any(
            kinds != "-" and kind.plural not in kinds.split()
            for (begin, kinds), (end, _) in spans
            if begin <= until and end >= since
        )


COPY = "copy-"


def is_copy(raw: Raw) -> bool:
    return str(raw["metadata"]["name"]).startswith(COPY)


class Walk:
    """Harms what is there, and judges each deletion that the operator asks for."""

    def __init__(self, here: World, seed: int) -> None:
        self.here, self.seed, self.random = here, seed, random.Random(seed)  # noqa: S311
        tag = here.namespace
        self.owners = [Owned(OWNERS[0], name) for name in ("a", "b", "c")]
        self.owners += [Owned(OWNERS[1], f"{name}-{tag}") for name in ("a", "b")]
        self.steps: list[str] = []
        self.judged = self.harms = self.deletions = 0
        #: The objects to which every mark of a child was moved, also who set it, by its uid.
        self.given: dict[str, set[str]] = {}

    def path(self, one: Owned) -> str:
        space = self.here.namespace if one.kind.namespaced else None
        return one.kind.path(space, one.name)

    # --- what users do with the objects -----------------------------------------------------------

    async def create(self, one: Owned) -> None:
        kinds = one.some()
        spec = {"text": "one", "kinds": kinds, "namespace": self.here.namespace}
        body = {
            "apiVersion": one.kind.api_version,
            "kind": one.kind.kind,
            "metadata": {"name": one.name},
            "spec": spec,
        }
        one.wanted.append((time.monotonic(), kinds))
        found = await self.here.cluster.ask("POST", self.path(one).rpartition("/")[0], body)
        one.uid = found["metadata"]["uid"]

    async def edit(self, one: Owned) -> None:
        """Have an object want other kinds, or only another text."""
        left_out = [kind for kind in EVERY[one.kind] if self.random.random() < 0.4]
        kinds = one.some(left_out if self.random.random() < 0.5 else [])
        one.wanted.append((time.monotonic(), one.wanted[-1][1]))
        spec = {"text": secrets.token_hex(2), "kinds": kinds}
        one.wanted.append((time.monotonic(), kinds))
        await self.here.cluster.patch(self.path(one), {"spec": spec})

    async def recreate(self, one: Owned) -> None:
        """Delete an object, with or without what it owns, and create it again."""
        policy = self.random.choice(("Orphan", "Background"))
        await self.here.cluster.ask("DELETE", self.path(one), {"propagationPolicy": policy})
        one.wanted.append((time.monotonic(), "-"))
        async with self.here.within(180, f"{one.name} is gone"):
            while await self.here.cluster.find(self.path(one)):
                await asyncio.sleep(0.05)
        await self.create(one)

    # --- what others do with their children -------------------------------------------------------

    async def children(self) -> list[tuple[Kind, Raw]]:
        """Return what may hold data."""
        kinds = [(kind, kind.path(self.here.namespace)) for kind in DATA]
        found = [(kind, raw) for kind, path in kinds for raw in await self.here.cluster.items(path)]
        # Copies become ever more, and matter less.
        return [one for one in found if not is_copy(one[1]) or self.random.random() < 0.1]

    async def harm(self, found: list[tuple[Kind, Raw]]) -> None:
        """Change the marks of a child in some way."""
        kind, raw = self.random.choice(found)
        others = [other for of_kind, other in found if of_kind == kind]
        alike = [one for one in self.owners if raw["metadata"]["name"].startswith(one.word)]
        how = self.random.choice(HARMS)
        owners = alike if alike and self.random.random() < 0.8 else self.owners
        change = how(self, raw, self.random.choice(others), self.random.choice(owners))
        path = kind.path(self.here.namespace, raw["metadata"]["name"])
        self.harms += 1
        self.steps.append(
            f"{time.monotonic():.2f} {how.__name__} {kind.plural} {path[-20:]}: {change}"[:600]
        )
        with suppress(RefusedError):  # gone, or not valid
            if how is copied:
                await self.here.cluster.ask("POST", kind.path(self.here.namespace), change)
            else:
                raw = await self.here.cluster.patch(path, {"metadata": change})
                self.look(raw)

    def look(self, raw: Raw) -> None:
        """Remember an object to which every mark of a child leads, also who set them."""
        meta = raw["metadata"]
        for one in self.owners:
            if self.all_lead_to(one, meta):
                self.given.setdefault(meta["uid"], set()).add(one.child)

    def all_lead_to(self, one: Owned, meta: Raw) -> bool:
        uid, _name = one.marks
        references = [owner["uid"] for owner in meta.get("ownerReferences", ())]
        mine: list[Raw] = [
            entry.get("fieldsV1", {}).get("f:metadata", {})
            for entry in meta.get("managedFields", ())
            if entry.get("manager", "").startswith(vaults.manager.program.name)
        ]
        return (
            (meta.get("labels") or {}).get(uid) == one.uid
            and any(f"f:{uid}" in entry.get("f:labels", {}) for entry in mine)
            and (not references or references == [one.uid])
        )

    # --- what happens to the operator -------------------------------------------------------------

    def trouble(self) -> None:
        """Kill a replica, or have it miss what happens, or not see a kind."""
        number = self.random.randrange(REPLICAS)
        proxy, operator = self.here.proxies[number], self.here.operators[number]
        what = self.random.choice(("kill", "miss", "forbid", "unknown", "late"))
        kind = self.random.choice((*DATA, *OWNERS))
        self.steps.append(f"{time.monotonic():.2f} {what} {kind.plural} of replica {number + 1}")
        match what:
            case "kill":
                operator.send(Signals.SIGKILL)
            case "miss":
                name = f"/{kind.plural}"
                proxy.arm_events(
                    lambda call, _: call.path.endswith(name), lambda *_: None, 5, may_miss=True
                )
            case "late":
                proxy.arm(
                    lambda call: call.plural == kind.plural, calls.late(1.0), 3, may_miss=True
                )
            case _:
                refusal = (
                    calls.refuse(403, "Forbidden")
                    if what == "forbid"
                    else calls.refuse(404, "NotFound")
                )
                proxy.arm(
                    lambda call: call.plural == kind.plural and not call.writes,
                    refusal,
                    4,
                    may_miss=True,
                )
                proxy.drop_connections()

    # --- the judge --------------------------------------------------------------------------------

    def judge(self) -> None:
        """Fail if a deletion of data was not asked for by its own object's plan."""
        writes = list(self.here.writes)
        for write in writes[self.judged :]:
            kind = next((k for k in DATA if f"/{k.plural}/" in write.path), None)
            if write.method == "DELETE" and kind is not None and write.status < 300:
                self.judge_deletion(kind, write)
        self.judged = len(writes)

    def judge_deletion(self, kind: Kind, write: Write) -> None:
        self.deletions += 1
        name = write.path.rpartition("/")[2]
        uid = json.loads(write.body)["preconditions"]["uid"]
        asking = [
            one for one in self.owners if one.child == name or one.child in self.given.get(uid, ())
        ]
        looked = [
            call.at
            for proxy in self.here.proxies
            for call in proxy.calls
            for one in asking
            if call.method == "GET" and call.path == self.path(one) and call.at <= write.at
        ]
        since = max(looked, default=write.at)
        # With all marks of another object's child, its managers among them, it is what that object
        # once asked for under another name: nothing tells the two apart, and only `manage` does it.
        forged = any(child != name for child in self.given.get(uid, ()))
        asked = any(one.asked_for(kind, since - 0.5, write.at) for one in asking)
        may = kind != PART and (forged or asked)
        if not may:
            steps = [step for step in self.steps if name[-12:] in step] + self.steps[-15:]
            text = f"seed {self.seed}: {kind.kind} {name} ({uid}) was deleted, asked by nobody:"
            raise AssertionError(self.here.story("\n".join([text, *steps])))


# Each returns what to merge into a child's metadata, given another child of its kind and an object.


def relabel(walk: Walk, raw: Raw, _: Raw, one: Owned) -> Raw:
    return {"labels": {one.marks[0]: walk.random.choice((one.uid, one.uid, None, "nobody"))}}


def rename(walk: Walk, raw: Raw, _: Raw, one: Owned) -> Raw:
    return {"annotations": {one.marks[1]: walk.random.choice((one.name, None, "nobody"))}}


def reparent(walk: Walk, raw: Raw, _: Raw, one: Owned) -> Raw:
    return {"ownerReferences": walk.random.choice(([one.reference()], None))}


def give(walk: Walk, raw: Raw, _: Raw, one: Owned) -> Raw:
    label, name = one.marks
    marks = {"labels": {label: one.uid}, "annotations": {name: one.name}}
    return marks | walk.random.choice(
        ({}, {"ownerReferences": [one.reference()]}, {"ownerReferences": None})
    )


def unmark(walk: Walk, raw: Raw, *_: Any) -> Raw:
    return {"labels": None, "annotations": None}


def age(walk: Walk, raw: Raw, *_: Any) -> Raw:
    word = walk.random.choice(("vault-generation", "estate-generation", "template-hash"))
    return {"annotations": {f"example.dev/{word}": walk.random.choice(("7", "0", "x" * 99, None))}}


def swap(walk: Walk, raw: Raw, other: Raw, _: Owned) -> Raw:
    """Take over all marks of another child."""
    parts = ("labels", "annotations", "ownerReferences")
    return {part: other["metadata"].get(part) for part in parts}


def manage(walk: Walk, raw: Raw, other: Raw, _: Owned) -> Raw:
    """Forget who set what, or say that of another child."""
    return {
        "managedFields": walk.random.choice(([{}], other["metadata"].get("managedFields", [{}])))
    }


def copied(walk: Walk, raw: Raw, *_: Any) -> Raw:
    """Copy it as `kubectl get -o yaml | sed | kubectl create -f -` does, or with all metadata."""
    parts: tuple[str, ...] = ("labels", "annotations", "ownerReferences")
    if walk.random.random() < 0.5:
        parts += ("managedFields",)
    meta = {part: raw["metadata"][part] for part in parts if part in raw["metadata"]}
    rest = {key: value for key, value in raw.items() if key not in ("metadata", "status")}
    spec = {k: v for k, v in rest.get("spec", {}).items() if k != "volumeName"}
    name = f"{COPY}{walk.random.randrange(10**9)}"
    return {**rest, "metadata": {**meta, "name": name}} | ({"spec": spec} if spec else {})


HARMS: tuple[Callable[..., Raw], ...]
HARMS = (relabel, rename, reparent, give, unmark, age, swap, manage, copied)


async def walked(here: World, rounds: int, least: int, seconds: float) -> None:
    """Walk so many rounds, and judge all the while; after so many seconds, `least` are enough."""
    seed = int(os.environ.get("VAULTS_SEED", "0")) or secrets.randbits(31)
    print(f"VAULTS_SEED={seed}")  # noqa: T201 (repeats the walk)
    walk = Walk(here, seed)
    await prepare(here.cluster, SUBJECT)
    for _ in range(REPLICAS):
        await here.start(*ELECT, "--resync-period=3", everywhere=True)
    for one in walk.owners:
        await walk.create(one)
    async with here.within(180, "all children are there"):
        while len(await walk.children()) < 3 * len(DATA) + 2 * 2:
            await asyncio.sleep(0.1)
    deadline = time.monotonic() + seconds
    for done in range(rounds):
        if done >= least and time.monotonic() > deadline:
            break
        found = await walk.children()
        await asyncio.gather(*(walk.harm(found) for _ in range(8)))
        walk.judge()
        one = walk.random.choice(walk.owners)
        await (walk.recreate(one) if walk.random.random() < 0.1 else walk.edit(one))
        if walk.random.random() < 0.15:
            walk.trouble()
        await asyncio.sleep(0.2)
        walk.judge()
    for proxy in here.proxies:
        proxy.disarm()
    await here.quiet()
    walk.judge()
    print(f"{walk.harms} harms, {walk.deletions} deletions of data")  # noqa: T201


async def test_t1_data_is_deleted_only_for_its_own_object(here: World) -> None:
    await walked(here, 40, 15, 15.0)


@pytest.mark.long
async def test_t1_data_is_deleted_only_for_its_own_object_for_long(here: World) -> None:
    await walked(here, 800, 200, 420.0)
