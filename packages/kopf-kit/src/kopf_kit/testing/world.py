"""The world of one test: a namespace with objects, operators behind proxies, and a kubelet.

The expectation is always the same: each object ends with exactly one correct child, and then the
operator writes nothing more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from kopf_kit.testing import comparison
from kopf_kit.testing.calls import Armed, Proxy, Write, proxying
from kopf_kit.testing.kubelet import Kubelet
from kopf_kit.testing.process import Operator
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_kit.testing.under_test import Parent, Subject
from kopf_runtime.declaring.kinds import Kind

LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
QUIET = 1.3  # seconds without a write; a transient state is written after one second
ELECT = (
    "--leader-elect",
    "--lease-duration=3",
    "--lease-renew-deadline=2",
    "--lease-retry-period=0.3",
)


class World:
    """The world of one test."""

    def __init__(
        self, cluster: Cluster, subject: Subject, namespace: str, stack: AsyncExitStack
    ) -> None:
        self.cluster = cluster
        self.subject = subject
        self.namespace = namespace
        self.kubelet = Kubelet(cluster, namespace)
        self.writes: list[Write] = []
        self.proxies: list[Proxy] = []
        self.operators: list[Operator] = []
        #: Replicas that cannot be ready, because they are stopped or cut off.
        self.frozen: set[Operator] = set()
        self._stack = stack

    @property
    def proxy(self) -> Proxy:
        return self.proxies[0]

    @property
    def parent(self) -> Parent:
        """The operator under test, whose objects have children."""
        assert isinstance(self.subject, Parent), f"a {self.subject} has no child"
        return self.subject

    @property
    def operator(self) -> Operator:
        return self.operators[0]

    async def start(
        self,
        *flags: str,
        harm: Callable[[Proxy], object] = lambda _: None,
        everywhere: bool = False,
        log_to: Path | None = None,
    ) -> Operator:
        """Start another replica behind its own proxy, and wait until it is ready.

        Its proxy may have faults from the beginning.
        """
        operator = await self.launch(*flags, harm=harm, everywhere=everywhere, log_to=log_to)
        async with self.within(120, "ready"):
            await operator.wait_until_ready()
        return operator

    async def launch(
        self,
        *flags: str,
        harm: Callable[[Proxy], object] = lambda _: None,
        everywhere: bool = False,
        log_to: Path | None = None,
    ) -> Operator:
        """Start another replica behind its own proxy; it logs to `log_to`, or else to a file."""
        if everywhere:
            await self.allow(None)
        who = f"replica {len(self.proxies) + 1}"
        proxy = await self._stack.enter_async_context(
            proxying(self.cluster.plane.server, self.writes, who)
        )
        self.proxies.append(proxy)
        harm(proxy)
        subject = self.subject
        operator = Operator(
            subject.program,
            subject.user,
            proxy.url,
            lambda port: subject.flags(port, self.namespace, *flags, everywhere=everywhere),
            subject.ready,
            log_to,
        )
        self.operators.append(operator)
        self._stack.push_async_callback(operator.close)
        await operator.start()
        return operator

    async def restart(self) -> None:
        """Kill the operator, and wait until its supervisor has restarted it and it is ready."""
        count = len(self.operator.exits)
        self.operator.send(Signals.SIGKILL)
        async with self.within(60, "killed"):
            while len(self.operator.exits) == count:
                await asyncio.sleep(0.05)
        async with self.within(120, "ready again"):
            await self.operator.wait_until_ready()

    async def allow(self, namespace: str | None) -> None:
        """Grant the operator its rights in a namespace, or in all, and those of the election."""
        await self.grant(self.subject.rights(namespace))
        await self.until_allowed("create", self.subject.creates, namespace or "default")
        if namespace is not None and self.subject.lease:
            await self.until_allowed("create", LEASE, namespace)

    async def until_allowed(self, verb: str, kind: Kind, namespace: str, now: bool = True) -> None:
        """Wait until the API server applies a new or removed right of the operator."""
        await self.cluster.until_allowed(self.subject.user, verb, kind, namespace, now)

    async def grant(self, manifests: Iterable[Raw]) -> None:
        """Create roles and bindings; cluster-wide ones are deleted at the end of the test."""
        for manifest in manifests:
            await self.cluster.put(manifest)
            if "namespace" not in manifest["metadata"]:
                self._stack.push_async_callback(self.cluster.take_back, manifest)

    async def another_namespace(self) -> str:
        """Create another namespace with the operator's rights; it is deleted after the test."""
        namespace = await self.cluster.new_namespace(self.subject.pod_security)
        await self.allow(namespace)
        self._stack.push_async_callback(self.cluster.remove_namespace, namespace)
        return namespace

    # --- actions of users -------------------------------------------------------------------------

    @property
    def objects(self) -> str:
        """The path of all objects."""
        return self.subject.kind.path(self.namespace)

    @property
    def children(self) -> str:
        """The path of their children."""
        return self.parent.child.path(self.namespace)

    def object(self, name: str = "hello") -> str:
        """Return the path of an object."""
        return f"{self.objects}/{name}"

    def child(self, name: str = "hello") -> str:
        """Return the path of its child."""
        return f"{self.children}/{self.parent.child_of(name)}"

    async def create(self, text: str, name: str = "hello") -> Raw:
        """Create an object with a text, and return it."""
        return await self.create_in(self.namespace, text, name)

    async def create_in(self, namespace: str, text: str, name: str = "hello") -> Raw:
        """Create an object, as soon as no finalizer holds a former one of its name."""
        path, body = self.subject.kind.path(namespace), self.subject.manifest(text, name)
        deadline = time.monotonic() + self.subject.patience
        while True:
            try:
                return await self.cluster.ask("POST", path, body)
            except RefusedError as error:
                former = await self.cluster.find(f"{path}/{name}")
                stays = former and "deletionTimestamp" not in former["metadata"]
                if error.status != 409 or stays or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def refused(self, spec: Raw, complaint: str) -> None:
        """Expect that the API server refuses an object with this spec in such words."""
        manifest = {**self.subject.manifest("하나", "refused"), "spec": spec}
        with pytest.raises(RefusedError) as error:
            await self.cluster.ask("POST", self.objects, manifest)
        assert (error.value.status, complaint in error.value.message) == (422, True), error.value

    async def edit(self, text: str, name: str = "hello") -> Raw:
        """Give an object another text, and return it."""
        spec = self.subject.spec_of(name, text)
        return await self.cluster.patch(self.object(name), {"spec": spec})

    async def delete(self, name: str = "hello") -> None:
        """Delete an object, and do not wait."""
        await self.cluster.remove(self.object(name))

    async def condition(self, name: str = "hello", namespace: str = "") -> Raw:
        """Return the object's Ready condition, or an empty one."""
        path = self.subject.kind.path(namespace or self.namespace, name)
        manifest = await self.cluster.find(path) or {}
        conditions: list[Raw] = (manifest.get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    async def until_reason(
        self, reason: str, name: str = "hello", patience: float | None = None, namespace: str = ""
    ) -> Raw:
        """Wait, for `patience` seconds, until the object's Ready condition has this reason."""
        async with self.within(patience or self.subject.patience, f"reason {reason}"):
            async for _ in _looking():
                if (condition := await self.condition(name, namespace)).get("reason") == reason:
                    break
        return condition

    async def wait_until_ready(self, name: str = "hello") -> None:
        """Wait until the object is Ready."""
        await self.until_reason(self.subject.ready_reason, name)

    async def quiet(self, seconds: float = QUIET) -> None:
        """Wait until nothing has been written for the given number of seconds."""
        async with self.within(self.subject.patience, "quiet"):
            count = -1
            while count != len(self.relevant()):
                count = len(self.relevant())
                await asyncio.sleep(seconds)

    def child_writes(self, method: str) -> list[Write]:
        """Return the writes that create or delete children; ignore subresources."""
        place = -1 if method == "POST" else -2
        return [
            write
            for write in self.relevant()
            if write.method == method
            and write.path.rstrip("/").split("/")[place] == self.parent.child.plural
        ]

    def children_made(self) -> int:
        """Count the children that the operator has created."""
        return sum(write.status == 201 for write in self.child_writes("POST"))

    def lists(self, plural: str) -> int:
        """Count how often the operator has listed a kind."""
        return sum(call.lists and call.plural == plural for call in self.proxy.calls)

    def reads(self, path: str) -> int:
        """Count how often the operator has read one object."""
        return sum(call.path == path and not call.writes for call in self.proxy.calls)

    # --- the expectation --------------------------------------------------------------------------

    async def converges(
        self, wanted: Mapping[str, str], *, patience: float | None = None, quiet: float = QUIET
    ) -> None:
        """Expect each object, given as name and text, to become right, and then no more writes.

        The first within `patience` seconds, the second for `quiet` seconds.
        """
        patience = self.subject.patience if patience is None else patience
        deadline = time.monotonic() + patience
        async for _ in _looking():
            problems = await self._problems(wanted)
            before = len(self.relevant())
            if not problems:
                await asyncio.sleep(quiet)
                problems = await self._problems(wanted)
                if not problems and len(self.relevant()) == before:
                    return
            if time.monotonic() > deadline:
                raise AssertionError(self.story(f"it goes on writing, or is wrong: {problems}"))

    async def wait_until_right(self, name: str, text: str) -> None:
        """Wait until one object is right, regardless of the others."""
        async with self.within(self.subject.patience, f"{name} is right"):
            async for _ in _looking():
                owner = await self.cluster.find(self.object(name))
                child = await self.cluster.find(self.child(name))
                if owner and child and not self.parent.wrong(owner, child, text):
                    return

    def relevant(self) -> list[Write]:
        """Return the writes, except those of the Lease."""
        return [write for write in list(self.writes) if "/leases" not in write.path]

    async def _problems(self, wanted: Mapping[str, str]) -> list[str]:
        objects = await self.cluster.items(self.objects)
        uids = {owner["metadata"]["uid"] for owner in objects}
        children = {
            self.parent.known_as(child): child
            for child in await self.cluster.items(self.children)
            if not comparison.is_foreign(child, self.subject.kind, uids)
        }
        problems = [
            f"{operator.flags} is not ready"
            for operator in self.operators
            if operator.supervised and operator not in self.frozen and not await operator.is_ready()
        ]
        if {owner["metadata"]["name"] for owner in objects} != set(wanted):
            problems.append(f"objects {[owner['metadata']['name'] for owner in objects]}")
        if set(children) != {self.parent.child_of(name) for name in wanted}:
            problems.append(f"{len(children)} children for {len(wanted)}: {list(children)[:5]}")
        for owner in objects:
            name = owner["metadata"]["name"]
            child = children.get(self.parent.child_of(name))
            if child is not None and name in wanted:
                problems += self.parent.wrong(owner, child, wanted[name])
        return [*problems, *await self._problems_of_others(objects, wanted)][:5]

    async def _problems_of_others(self, objects: list[Raw], wanted: Mapping[str, str]) -> list[str]:
        """Return what is wrong with the children of further kinds."""
        kinds = [kind for kind in self.parent.owned if kind != self.parent.child]
        planned = {
            (parent["metadata"]["uid"], *key): manifest
            for parent in objects
            if kinds and (name := parent["metadata"]["name"]) in wanted
            for key, manifest in self.parent.further(parent, wanted[name]).items()
        }
        uids = {parent["metadata"]["uid"] for parent in objects}
        existing = {
            (owner, kind.kind, child["metadata"]["name"]): child
            for kind in kinds
            for child in await self.cluster.items(kind.path(self.namespace))
            for owner in comparison.owners(child, self.subject.kind)
            if owner and not comparison.is_foreign(child, self.subject.kind, uids)
        }
        missing, surplus = planned.keys() - existing.keys(), existing.keys() - planned.keys()
        problems = [f"{name} is missing" for *_, name in sorted(missing)]
        problems += [f"{name} is not wanted" for *_, name in sorted(surplus)]
        for key in planned.keys() & existing.keys():
            facts = comparison.compared(existing[key], planned[key])
            problems += [
                f"{key[2]}: {k} is {a!r}, not {b!r}" for k, (a, b) in facts.items() if a != b
            ]
        return problems

    def story(self, what: str) -> str:
        """Return a description of what happened, for a failure's message."""
        parts = [what, "writes:", *map(str, self.writes[-40:])]
        for operator in self.operators:
            parts += [f"exits {operator.exits}, log:"]
            parts += operator.log.read_text(errors="replace").splitlines()[-40:]
        return "\n".join(parts)

    async def met(self, *faults: Armed[Any, Any]) -> None:
        """Wait until each of these faults has happened."""
        what = f"met: {[fault.where for fault in faults]}"
        try:
            async with self.within(self.subject.patience, what):
                while not all(fault.hits for fault in faults):
                    await asyncio.sleep(0.02)
        except AssertionError:
            for fault in faults:
                fault.may_miss = True  # the test has failed for it
            raise

    def expect_faults_were_met(self) -> None:
        """Fail if an armed fault never happened, because then the test proves nothing."""
        unmet = self.kubelet.unmet() + [line for proxy in self.proxies for line in proxy.unmet()]
        assert not unmet, self.story("\n  ".join(["faults that were armed and never met:", *unmet]))

    def expect_data_was_kept(self) -> None:
        """Fail if the operator asked for the deletion of data, whatever the answer was."""
        if isinstance(self.subject, Parent) and self.subject.keeps:
            plurals = {kind.plural for kind in self.subject.owned}
            asked = [
                call.path
                for proxy in self.proxies
                for call in proxy.calls
                if call.method == "DELETE" and call.plural in plurals
            ]
            assert not asked, self.story(f"it asked for the deletion of {asked}")

    @asynccontextmanager
    async def within(self, patience: float, what: str) -> AsyncIterator[None]:
        """Fail with the whole story if the block takes longer than `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                yield
        except TimeoutError:
            raise AssertionError(self.story(f"not within {patience} s: {what}")) from None


async def _looking() -> AsyncIterator[None]:
    """Yield without end, at once and then less and less often: looking keeps a server busy, too."""
    pause = 0.05
    while True:
        began = time.monotonic()
        yield
        await asyncio.sleep(max(pause, min(time.monotonic() - began, 1.0)))
        pause = min(pause * 1.3, 0.5)


@asynccontextmanager
async def world(cluster: Cluster, subject: Subject) -> AsyncIterator[World]:
    """Create a namespace, and run a kubelet for it during the block."""
    namespace = await cluster.new_namespace(subject.pod_security)
    async with AsyncExitStack() as stack:
        here = World(cluster, subject, namespace, stack)
        await here.allow(namespace)
        try:
            async with here.kubelet.running():
                try:
                    yield here
                    here.expect_faults_were_met()
                    here.expect_data_was_kept()
                finally:
                    await stack.aclose()
        finally:
            await cluster.remove_namespace(namespace)
