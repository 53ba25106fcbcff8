"""What happens to each kind of children, by situation and mode of `owns`, on a real API server.

docs/reliability.md has the table. The operator stops before each harm, and starts again after it;
where the garbage collector has a part in it, the harm is what that does.
"""

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kopf_runtime as kr
from faults import holders
from faults.worlds import client_of
from kopf_kit.rig import tools
from kopf_kit.rig.control_plane import ADMIN
from kopf_kit.testing.requests import Cluster, Raw
from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.kinds import CONFIG_MAP, JOB, POD, SECRET, SERVICE, STATEFUL_SET, Kind
from kopf_runtime.declaring.kinds import PERSISTENT_VOLUME_CLAIM as CLAIM
from kopf_runtime.declaring.records import Update
from kopf_runtime.reporting import troubles
from runtime.support.running import at_work, caches, operating

pytestmark = pytest.mark.api

PART = Kind("situations.example.dev", "v1", "parts", "Part")
HOLDER = Kind("situations.example.dev", "v1", "holders", "Holder")
KINDS = (CLAIM, SECRET, STATEFUL_SET, JOB, CONFIG_MAP, SERVICE, PART, POD)
UID = f"{HOLDER.group}/holder-uid"
OWNER = f"{HOLDER.group}/holder-name"
GENERATION, TEMPLATE = f"{HOLDER.group}/holder-generation", f"{HOLDER.group}/template-hash"


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: str = ""


class Holder(kr.Resource):
    """An object with a child of each kind."""

    spec: Spec = Spec()


def desired(holder: Holder, _: object) -> Iterable[Raw]:
    """Return a child of each kind; its label `text` may change, and so may a Secret's password."""
    labels = {"holder": holder.metadata.name}
    container = {"name": "main", "image": "holder:1", "env": [{"name": "A", "value": "b"}]}
    pod = {"containers": [container], "restartPolicy": "Never"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    steady = {**template, "spec": {**pod, "restartPolicy": "Always"}}
    contents: dict[Kind, Raw] = {
        CLAIM: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1024Mi"}},
            }
        },
        SECRET: {"stringData": {"password": holder.spec.text}},
        STATEFUL_SET: {
            "spec": {
                "serviceName": "s",
                "replicas": 0,
                "template": steady,
                "selector": {"matchLabels": labels},
            }
        },
        JOB: {"spec": {"backoffLimit": 0, "parallelism": 0, "template": template}},
        CONFIG_MAP: {"data": {"text": holder.spec.text, "empty": ""}},
        SERVICE: {
            "spec": {
                "selector": labels,
                "ports": [
                    {"name": "udp", "port": 53, "protocol": "UDP"},
                    {"name": "tcp", "port": 53},
                ],
            }
        },
        PART: {
            "spec": {
                "members": [
                    {"id": "a", "role": "first"},
                    {"id": "b", "role": "second", "zone": "z"},
                ]
            }
        },
        POD: {"spec": pod},
    }
    for kind, content in contents.items():
        metadata = {"name": holder.metadata.name, "labels": {"text": holder.spec.text}}
        yield {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


class PastClient(Client):
    """A client whose first list of Holders is an old one, and whose watch of them is late."""

    past: bytes | None
    caught_up: asyncio.Event
    methods: set[str]

    async def request(self, method: str, path: str, *args: Any, **options: Any) -> bytes:
        self.methods.add(method)
        listed = method == "GET" and path.endswith("/holders")
        if listed and self.past is not None:
            return self.past
        return await super().request(method, path, *args, **options)

    async def lines(self, path: str, query: str) -> AsyncIterator[bytes]:  # type: ignore[override]
        if path.endswith("/holders"):
            await self.caught_up.wait()
        async for line in super().lines(path, query):
            yield line


@dataclass
class Case:
    """A namespace with a Holder, whose children are changed in one way."""

    cluster: Cluster
    mode: str
    namespace: str = field(default_factory=lambda: f"s-{secrets.token_hex(4)}")
    desired: Callable[..., Iterable[Raw]] = desired
    past: bytes | None = None
    client: PastClient | None = None

    def catch_up(self) -> None:
        """Let the operator see the present."""
        assert self.client is not None
        self.client.past = None
        self.client.caught_up.set()

    def path(self, kind: Kind) -> str:
        return kind.path(self.namespace, "one")

    async def holder(self) -> Raw:
        return await self.cluster.ask("GET", self.path(HOLDER))

    async def create(self, text: str = "one", name: str = "one") -> Raw:
        manifest = {
            "apiVersion": HOLDER.api_version,
            "kind": "Holder",
            "metadata": {"name": name},
            "spec": {"text": text},
        }
        return await self.cluster.ask("POST", HOLDER.path(self.namespace), manifest)

    async def children(self) -> dict[Kind, Raw]:
        found = {kind: await self.cluster.find(self.path(kind)) for kind in KINDS}
        if job := found[JOB]:
            # Kubernetes' own controller may write its status at any moment, and that alone.
            metadata = job["metadata"]
            del job["status"], metadata["resourceVersion"]
            fields = metadata["managedFields"]
            metadata["managedFields"] = [each for each in fields if "subresource" not in each]
        return {kind: raw for kind, raw in found.items() if raw is not None}

    async def patch_all(self, body: Raw) -> None:
        for kind in KINDS:
            path = f"{self.path(kind)}?fieldManager=somebody"
            await self.cluster.patch(path, body)

    async def put(self, kind: Kind, raw: Raw, metadata: Raw) -> None:
        """Create an object as somebody else, with what another one has."""
        again = {**deepcopy(raw), "metadata": metadata, "status": {}}
        if kind == JOB:  # as Velero's own action for Jobs
            del again["spec"]["selector"]
            again["spec"]["template"]["metadata"]["labels"] = {"holder": "one"}
        await self.cluster.ask("POST", f"{kind.path(self.namespace)}?fieldManager=somebody", again)

    async def end(self, kind: Kind, **options: Raw) -> None:
        """Delete an object, as the garbage collector or a user does."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await self.cluster.attempt("DELETE", self.path(kind), {**now, **options})

    def engine(self) -> Controller:
        one = Controller(HOLDER, Holder, None)
        for kind in KINDS:
            mode = {"prune": True, **MODES[self.mode]}
            one.owns(kind, **mode, unready=lambda _: "")
        one.desired(self.desired)
        return one

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Controller]:
        one = self.engine()
        settings = kr.Settings(namespaces=(self.namespace,), resync_period=2.0)
        async with client_of(self.cluster, PastClient) as client:
            client.past, client.caught_up, client.methods = self.past, asyncio.Event(), set()
            self.client = client
            if self.past is None:
                client.caught_up.set()
            async with operating(client, one, settings=settings):
                yield one

    async def ready(self) -> Raw:
        """Return the condition."""
        holder = await self.cluster.find(self.path(HOLDER)) or {}
        conditions = (holder.get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    async def reason(self) -> tuple[str, int]:
        ready = await self.ready()
        return ready.get("reason", ""), ready.get("observedGeneration", 0)


# --- situations ---------------------------------------------------------------------------------


async def nothing(_: Case) -> None:
    """Only the operator is restarted."""


async def edited(case: Case) -> None:
    await case.cluster.patch(case.path(HOLDER), {"spec": {"text": "two"}})


async def altered(case: Case) -> None:
    """Somebody else changes what the operator has set."""
    await case.patch_all({"metadata": {"labels": {"text": "somebody-s"}}})


async def marks_changed(case: Case) -> None:
    marks = {GENERATION: "7", TEMPLATE: "somebody-s"}
    await case.patch_all({"metadata": {"annotations": marks}})


async def owner_removed(case: Case) -> None:
    await case.patch_all({"metadata": {"ownerReferences": None}})


async def is_to_keep(case: Case) -> None:
    """Edit the object so that its children outlive it from now on, if it may choose."""
    await case.cluster.patch(case.path(HOLDER), {"spec": {"text": "keep"}})


async def reference_outdated(case: Case) -> None:
    """The object's kind had another version when the children were made."""
    for kind, raw in (await case.children()).items():
        for reference in raw["metadata"].get("ownerReferences", ()):
            former = [{**reference, "apiVersion": f"{HOLDER.group}/v1alpha1"}]
            body = {"metadata": {"ownerReferences": former}}
            await case.cluster.patch(f"{case.path(kind)}?fieldManager=somebody", body)


async def orphaned(case: Case) -> None:
    """Do what `kubectl delete --cascade=orphan` and a backup's restore of the object do."""
    await owner_removed(case)
    await case.end(HOLDER)
    await case.create()


async def restored(case: Case) -> None:
    """Do what Velero does: all is gone, and comes back with other uids and without owners."""
    before = await case.children()
    await case.end(HOLDER)
    for kind, raw in before.items():
        await case.end(kind)
        kept = ("name", "labels", "annotations")
        await case.put(kind, raw, {name: raw["metadata"][name] for name in kept})
    await case.create()


async def behind(case: Case) -> None:
    """The API server's answers are from before an edit that has been carried out."""
    lists = await case.cluster.ask("GET", HOLDER.path(case.namespace))
    await edited(case)
    async with case.operator() as one:
        await settled(case, one, 2)
    case.past = json.dumps(lists).encode()


async def behind_one_more(case: Case) -> None:
    """The same with an edit that adds a claim, which the past does not want."""
    case.desired = one_more
    await behind(case)
    assert await case.cluster.find(CLAIM.path(case.namespace, "more"))


def one_more(holder: Holder, context: object) -> Iterable[Raw]:
    """Return one claim more after the edit, and all others as they were."""
    for child in desired(Holder(metadata=holder.metadata, spec=Spec("one")), context):
        yield child
        if child["kind"] == CLAIM.kind and holder.spec.text == "two":
            yield {**child, "metadata": {"name": "more"}}


async def make_foreign(case: Case) -> None:
    """Others have objects of the children's names."""
    for kind in KINDS:
        raw = await case.cluster.ask("GET", case.path(kind))
        await case.end(kind)
        await case.put(kind, raw, {"name": "one", "labels": {"whose": "somebody-s"}})


async def give_away(case: Case) -> None:
    """Somebody gives all children to another object."""
    other = await case.create("two", "other")
    uid = other["metadata"]["uid"]
    reference = {"apiVersion": HOLDER.api_version, "kind": "Holder", "name": "other", "uid": uid}
    metadata: Raw = {"labels": {UID: uid}, "annotations": {OWNER: "other"}}
    if case.mode != "retain":
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    await case.patch_all({"metadata": metadata})


# --- what becomes of the children ---------------------------------------------------------------

Children = dict[Kind, Raw]


async def settled(case: Case, one: Controller, generation: int = 0) -> None:
    """Wait until the object is reconciled and the operator has nothing left to do."""
    generation = generation or (await case.holder())["metadata"]["generation"]
    quiet = 0
    async with asyncio.timeout(30):
        await caches(one).first_lists()  # before that, nothing is queued
        while quiet < 5:
            done = await case.reason() == ("Reconciled", generation)
            idle = (
                at_work(one).queue.running
                and not len(at_work(one).queue)
                and not at_work(one).queue.longest_running()
            )
            quiet = quiet + 1 if done and idle else 0
            await asyncio.sleep(0.05)


def uids(children: Children) -> dict[str, str]:
    return {kind.kind: raw["metadata"]["uid"] for kind, raw in children.items()}


def texts(children: Children) -> set[str]:
    return {raw["metadata"]["labels"].get("text", "") for raw in children.values()}


def are_owned(children: Children, owner: Raw) -> bool:
    uid, versions = owner["metadata"]["uid"], {HOLDER.api_version}
    return all(
        raw["metadata"]["annotations"].get(OWNER, uid) in ("one", uid)
        and [reference["uid"] for reference in raw["metadata"].get("ownerReferences", ())]
        == ([] if OWNER in raw["metadata"]["annotations"] else [uid])
        and {reference["apiVersion"] for reference in raw["metadata"].get("ownerReferences", ())}
        <= versions
        and raw["metadata"]["labels"][UID] == uid
        for raw in children.values()
    )


async def kept(case: Case, before: Children) -> None:
    """Nothing is written."""
    assert await case.children() == before


async def undeleted(case: Case, before: Children) -> None:
    """Nothing is written, and no deletion is asked for."""
    await kept(case, before)
    assert case.client is not None
    assert "DELETE" not in case.client.methods


async def adopted(case: Case, before: Children) -> None:
    """The children are the object's again, and have what they had."""
    now = await case.children()
    assert uids(now) == uids(before)
    assert are_owned(now, await case.holder())
    for kind, raw in now.items():
        assert (raw.get("spec"), raw.get("data")) == (
            before[kind].get("spec"),
            before[kind].get("data"),
        )


async def applied(case: Case, before: Children) -> None:
    """They are changed in place to what is wanted."""
    now, holder = await case.children(), await case.holder()
    assert uids(now) == uids(before)
    assert are_owned(now, holder)
    assert texts(now) == {holder["spec"]["text"]}


async def replaced(case: Case, before: Children) -> None:
    """Each is deleted, and another one is created."""
    now, holder = await case.children(), await case.holder()
    assert len(now) == len(KINDS)
    assert not uids(now).items() & uids(before).items()
    assert are_owned(now, holder)
    assert texts(now) == {holder["spec"]["text"]}


#: What happens with Update.APPLY, kr.RECREATE, kr.CREATE, and deletion_policy=kr.RETAIN.
TABLE: dict[Callable[[Case], Awaitable[None]], tuple[Any, Any, Any, Any]] = {
    nothing: (kept, kept, kept, kept),
    edited: (applied, replaced, kept, applied),
    altered: (applied, replaced, kept, applied),
    marks_changed: (applied, replaced, kept, applied),
    owner_removed: (applied, replaced, adopted, kept),
    reference_outdated: (applied, kept, adopted, kept),
    orphaned: (applied, replaced, adopted, applied),
    restored: (applied, replaced, adopted, applied),
    behind: (undeleted, undeleted, undeleted, undeleted),
    behind_one_more: (undeleted, undeleted, undeleted, undeleted),
}
MODES: dict[str, Raw] = {
    "apply": {"update": Update.APPLY},
    "recreate": {"update": kr.RECREATE},
    "create": {"update": kr.CREATE},
    "retain": {"deletion_policy": kr.RETAIN},
    "make-again": {"on_immutable": kr.RECREATE},
    "orphan": {"on_immutable": kr.ORPHAN},
    "keep": {"prune": False},
    "chosen": {"deletion_policy": lambda one: kr.RETAIN if one.spec.text == "keep" else kr.DELETE},
}
MODES["chosen-once"] = {**MODES["chosen"], "update": kr.CREATE}
COLUMNS = ("apply", "recreate", "create", "retain")
#: What may cost data is tried in each mode before a change lands; the rest where `apply` is.
IN_TIME = (orphaned, restored, behind)
CASES = [
    pytest.param(
        situation,
        mode,
        id=f"{situation.__name__}-{mode}",
        marks=() if mode == "apply" or situation in IN_TIME else pytest.mark.long,
    )
    for situation in TABLE
    for mode in COLUMNS
]
each_mode = pytest.mark.parametrize("mode", COLUMNS)


@pytest.fixture
async def case(cluster: Cluster, mode: str) -> Case:
    """A Holder and its children; no operator runs."""
    for kind, fields in (
        (HOLDER, {"text": {"type": "string"}}),
        (PART, {"members": holders.MEMBERS}),
    ):
        await cluster.put(holders.definition(kind, **fields))
        await cluster.serves(kind)
    one = Case(cluster, mode)
    await cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": one.namespace}})
    await one.create()
    async with one.operator() as controller:
        await settled(one, controller)
    assert len(await one.children()) == len(KINDS)
    return one


@pytest.mark.parametrize(("situation", "mode"), CASES)
async def test_what_happens_to_children(
    case: Case, situation: Callable[[Case], Awaitable[None]], mode: str
) -> None:
    await situation(case)
    before = await case.children()

    async with case.operator() as one:
        if case.past is not None:
            await asyncio.sleep(0.5)  # the steps that an old view leads to
            case.catch_up()
        await settled(case, one)

    await TABLE[situation][COLUMNS.index(mode)](case, before)


@pytest.mark.parametrize("mode", ["apply", "recreate", "create"])
async def test_children_of_a_former_object_are_waited_for(case: Case) -> None:
    """The object is deleted and made again; its children are not collected yet."""
    before = await case.children()
    await case.end(HOLDER)
    await case.create()

    async with case.operator() as one:
        await asyncio.sleep(0.5)  # the steps that it would wrongly take
        for kind in KINDS:  # the garbage collector, if the real one is not faster
            uid = before[kind]["metadata"]["uid"]
            await case.end(kind, preconditions={"uid": uid})
        await settled(case, one)

    await replaced(case, before)
    assert case.client is not None
    assert "DELETE" not in case.client.methods


@pytest.mark.parametrize("harm", [make_foreign, pytest.param(give_away, marks=pytest.mark.long)])
@each_mode
async def test_t5_foreign_objects_are_left_alone_until_they_are_handed_over(
    case: Case,
    mode: str,
    harm: Callable[[Case], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(troubles, "CONFLICT", 0.2)  # a look that no watch tells of
    await harm(case)
    before = await case.children()

    async with case.operator() as one:
        async with asyncio.timeout(30):
            while (await case.reason())[0] != "Conflict":
                await asyncio.sleep(0.05)
        await kept(case, before)
        if mode == "recreate":  # handed over, it would be deleted
            assert "`" not in (await case.ready())["message"]
            return
        typed: set[str] = set()
        async with asyncio.timeout(60):
            while (ready := await case.ready())["reason"] == "Conflict":
                if (commands := ready["message"].split("`")[1]) not in typed:
                    await asyncio.to_thread(type_in, commands, case.cluster, tmp_path)
                    typed.add(commands)
                await asyncio.sleep(0.05)
        await settled(case, one)

    now, owner = await case.children(), (await case.holder())["metadata"]["uid"]
    assert uids(now) == uids(before)
    for kind, raw in now.items():
        owners = [reference["uid"] for reference in raw["metadata"].get("ownerReferences", ())]
        assert owners == ([] if mode == "retain" else [owner])
        assert raw["metadata"]["labels"][UID] == owner
        assert raw.get("data") == before[kind].get("data")


def type_in(commands: str, cluster: Cluster, folder: Path) -> None:
    """Have a shell run what a message says, with kubectl's own access to the cluster."""
    path = f"{tools.path('kubectl').parent}:{os.environ['PATH']}"
    access = {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(cluster.plane.kubeconfig(ADMIN))}
    subprocess.run(["/bin/sh", "-ec", commands], env=access, check=True, timeout=60)


@pytest.mark.parametrize("mode", ["retain"])
async def test_children_that_outlive_their_owner_are_the_next_one_s(case: Case) -> None:
    """The garbage collector leaves them alone, too, until the object is made again."""
    before = await case.children()
    await case.end(HOLDER)
    async with case.operator():
        await asyncio.sleep(2)  # the steps that the operator or the collector would wrongly take
        await kept(case, before)
        await case.create("two")
    async with case.operator() as one:
        await settled(case, one)

    await applied(case, before)
    assert case.client is not None
    assert "DELETE" not in case.client.methods


@pytest.mark.parametrize("mode", ["chosen", "chosen-once"])
async def test_each_object_says_whether_its_children_outlive_it(case: Case) -> None:
    before = await case.children()
    await is_to_keep(case)
    async with case.operator() as one:
        await settled(case, one)
        kept_now = await case.children()
        await case.end(HOLDER)
        await asyncio.sleep(2)  # what the garbage collector would wrongly take
        await kept(case, kept_now)
        await case.create("drop")
        await settled(case, one)
    now = await case.children()
    assert uids(now) == uids(kept_now) == uids(before)
    assert are_owned(now, await case.holder())

    await case.end(HOLDER)
    async with asyncio.timeout(60):  # the garbage collector's
        while await case.children():
            await asyncio.sleep(0.1)


def unwilling(holder: Holder, context: object) -> Iterable[Raw]:
    """Return children of which some have other values in fields that the API server keeps."""
    for child in desired(holder, context):
        if holder.spec.text == "other":
            match child["kind"]:
                case "PersistentVolumeClaim":
                    child["spec"]["accessModes"] = ["ReadWriteMany"]
                case "StatefulSet":
                    child["spec"]["serviceName"] = "other"
                case "Job":
                    child["spec"]["template"]["spec"]["containers"][0]["image"] = "holder:2"
                case "Pod":
                    child["spec"]["containers"][0]["env"] = [{"name": "A", "value": "c"}]
        yield child


UNWILLING = (CLAIM, STATEFUL_SET, JOB, POD)


@pytest.mark.parametrize("mode", ["apply", "make-again", "orphan"])
async def test_what_cannot_be_changed_in_place(case: Case, mode: str) -> None:
    before = await case.children()
    case.desired = unwilling
    await case.cluster.patch(case.path(HOLDER), {"spec": {"text": "other"}})

    async with case.operator() as one:
        if mode != "apply":
            await settled(case, one)
        else:
            async with asyncio.timeout(30):
                while await case.reason() != ("Invalid", 2):
                    await asyncio.sleep(0.05)

    now = await case.children()
    same = dict(uids(now).items() & uids(before).items()).keys()
    if mode == "apply":
        assert same == uids(now).keys()
        assert all(now[kind] == before[kind] for kind in UNWILLING)
    else:
        assert same == uids(now).keys() - {kind.kind for kind in UNWILLING}
        assert texts(now) == {"other"}


def fewer(holder: Holder, context: object) -> Iterable[Raw]:
    return () if holder.spec.text == "none" else desired(holder, context)


@pytest.mark.parametrize("mode", ["apply", "recreate", "create", "keep", "retain"])
async def test_what_is_no_longer_wanted(case: Case, mode: str) -> None:
    before = await case.children()
    case.desired = fewer
    await case.cluster.patch(case.path(HOLDER), {"spec": {"text": "none"}})
    async with case.operator() as one:
        await settled(case, one)
        if mode == "keep":
            await kept(case, before)
            await edited(case)
            await settled(case, one)
            await applied(case, before)
        else:
            async with asyncio.timeout(30):
                while await case.children():
                    await asyncio.sleep(0.05)
