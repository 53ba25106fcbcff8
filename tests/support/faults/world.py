"""A namespace of its own with Messages, operators behind proxies, a kubelet; and the oracle.

The oracle is always the same: it converges to one right Pod a Message, and then nothing more is
written.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from signal import Signals
from typing import Any

from tests.support.faults.cluster import MESSAGES, Cluster, Raw
from tests.support.faults.kubelet import Kubelet
from tests.support.faults.process import Operator
from tests.support.faults.proxy import Armed, Proxy, Write, proxying

PATIENCE = 120.0  # seconds to converge in
QUIET = 1.3  # seconds without a write; a passing state is written after one second
ELECT = (
    "--leader-elect", "--lease-name=demo-message-operator", "--lease-duration=3",
    "--lease-renew-deadline=2", "--lease-retry-period=0.3",
)  # fmt: skip


class World:
    """What one test sees."""

    def __init__(self, cluster: Cluster, namespace: str, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kubelet = Kubelet(cluster, namespace)
        self.writes: list[Write] = []
        self.proxies: list[Proxy] = []
        self.operators: list[Operator] = []
        #: Replicas that cannot be ready: they are stopped, or cut off.
        self.frozen: set[Operator] = set()
        self._stack = stack

    @property
    def proxy(self) -> Proxy:
        return self.proxies[0]

    @property
    def operator(self) -> Operator:
        return self.operators[0]

    async def start(
        self,
        *flags: str,
        harm: Callable[[Proxy], object] = lambda _: None,
        everywhere: bool = False,
        log_to: int | None = None,
    ) -> Operator:
        """Start one more replica behind a proxy of its own, and wait until it is ready.

        Its proxy may be harmed from the beginning.
        """
        operator = await self.launch(*flags, harm=harm, everywhere=everywhere, log_to=log_to)
        async with self.within(120, "ready"):
            await operator.ready()
        return operator

    async def launch(
        self,
        *flags: str,
        harm: Callable[[Proxy], object] = lambda _: None,
        everywhere: bool = False,
        log_to: int | None = None,
    ) -> Operator:
        """Start one more replica behind a proxy of its own; it logs to a file, or where told."""
        if everywhere:
            await self.cluster.allow_everywhere()
        who = f"replica {len(self.proxies) + 1}"
        proxy = await self._stack.enter_async_context(
            proxying(self.cluster.plane.server, self.writes, who)
        )
        self.proxies.append(proxy)
        harm(proxy)
        scope = "--all-namespaces" if everywhere else f"--namespace={self.namespace}"
        operator = Operator(
            proxy.url, scope, f"--lease-namespace={self.namespace}", "--sweep-period=300",
            "--log-level=debug", *flags, log_to=log_to,
        )  # fmt: skip
        self.operators.append(operator)
        self._stack.push_async_callback(operator.close)
        await operator.start()
        return operator

    async def restart(self) -> None:
        """Kill the operator, and wait until its supervisor has it ready again."""
        count = len(self.operator.exits)
        self.operator.send(Signals.SIGKILL)
        async with self.within(60, "killed"):
            while len(self.operator.exits) == count:
                await asyncio.sleep(0.05)
        async with self.within(120, "ready again"):
            await self.operator.ready()

    async def another_namespace(self) -> str:
        """Make one more namespace, in which the operator has its rights; gone with the test."""
        namespace = await self.cluster.new_namespace()
        await self.cluster.allow_here(namespace)
        self._stack.push_async_callback(self.cluster.remove, f"/api/v1/namespaces/{namespace}")
        return namespace

    # --- the users' doings ------------------------------------------------------------------------

    def message(self, name: str = "hello") -> str:
        return f"{MESSAGES}/namespaces/{self.namespace}/messages/{name}"

    def pod(self, name: str = "hello") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/msg-{name}"

    def collection(self, plural: str) -> str:
        root = MESSAGES if plural == "messages" else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}"

    async def create(self, text: str, name: str = "hello") -> Raw:
        return await self.create_in(self.namespace, text, name)

    async def create_in(self, namespace: str, text: str, name: str = "hello") -> Raw:
        body = {
            "apiVersion": "myorg.dev/v1", "kind": "Message",
            "metadata": {"name": name}, "spec": {"text": text},
        }  # fmt: skip
        return await self.cluster.ask("POST", f"{MESSAGES}/namespaces/{namespace}/messages", body)

    async def edit(self, text: str, name: str = "hello") -> Raw:
        return await self.cluster.patch(self.message(name), {"spec": {"text": text}})

    async def delete(self, name: str = "hello") -> None:
        await self.cluster.remove(self.message(name))

    async def condition(self, name: str = "hello", namespace: str = "") -> Raw:
        """Return the Message's Ready condition, empty without one."""
        path = f"{MESSAGES}/namespaces/{namespace or self.namespace}/messages/{name}"
        found = await self.cluster.find(path) or {}
        conditions: list[Raw] = (found.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == "Ready"), {})

    async def until_reason(
        self, reason: str, name: str = "hello", patience: float = PATIENCE, namespace: str = ""
    ) -> Raw:
        """Wait until the Message's Ready condition gives this reason."""
        async with self.within(patience, f"reason {reason}"):
            while (told := await self.condition(name, namespace)).get("reason") != reason:
                await asyncio.sleep(0.05)
        return told

    async def is_ready(self, name: str = "hello") -> None:
        """Wait until the Message says that its Pod prints the text."""
        await self.until_reason("PodRunning", name)

    async def quiet(self, seconds: float = QUIET) -> None:
        """Wait until nothing was written for so many seconds."""
        async with self.within(PATIENCE, "quiet"):
            count = -1
            while count != len(self.relevant()):
                count = len(self.relevant())
                await asyncio.sleep(seconds)

    def pods_made(self) -> int:
        """Count the Pods that the operator has made."""
        return sum(is_pod_write(write, "POST") and write.status == 201 for write in self.relevant())

    def lists(self, plural: str) -> int:
        """Count how often the operator has listed a kind."""
        return sum(call.lists and call.plural == plural for call in self.proxy.calls)

    # --- the oracle -------------------------------------------------------------------------------

    async def converges(
        self, wanted: Mapping[str, str], *, patience: float = PATIENCE, quiet: float = QUIET
    ) -> None:
        """Assert that each Message, a text by its name, comes right, and then all is quiet."""
        deadline = time.monotonic() + patience
        while True:
            problems = await self._problems(wanted)
            before = len(self.relevant())
            if not problems:
                await asyncio.sleep(quiet)
                problems = await self._problems(wanted)
                if not problems and len(self.relevant()) == before:
                    return
            if time.monotonic() > deadline:
                raise AssertionError(self.story(f"it goes on writing, or is wrong: {problems}"))
            await asyncio.sleep(0.05)

    async def is_right(self, name: str, text: str) -> None:
        """Wait until one Message is right, whatever the others are."""
        async with self.within(PATIENCE, f"{name} is right"):
            while True:
                message = await self.cluster.find(self.message(name))
                pod = await self.cluster.find(self.pod(name))
                if message and pod and not _wrong(message, pod, text):
                    return
                await asyncio.sleep(0.05)

    def relevant(self) -> list[Write]:
        """Give the writes but the Lease's."""
        return [write for write in list(self.writes) if "/leases" not in write.path]

    async def _problems(self, wanted: Mapping[str, str]) -> list[str]:
        scope = f"/namespaces/{self.namespace}"
        messages = await self.cluster.items(f"{MESSAGES}{scope}/messages")
        pods = await self.cluster.items(f"/api/v1{scope}/pods")
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        found = [
            f"{operator.flags} is not ready"
            for operator in self.operators
            if operator.supervised
            and operator not in self.frozen
            and (await operator.probe("/readyz"))[0] != 200
        ]
        if {m["metadata"]["name"] for m in messages} != set(wanted):
            found.append(f"Messages {[m['metadata']['name'] for m in messages]}")
        if set(by_name) != {f"msg-{name}" for name in wanted}:
            found.append(f"{len(by_name)} Pods for {len(wanted)} Messages: {list(by_name)[:5]}")
        for message in messages:
            pod = by_name.get(f"msg-{message['metadata']['name']}")
            if pod is not None and (text := wanted.get(message["metadata"]["name"])) is not None:
                found += _wrong(message, pod, text)
        return found[:5]

    def story(self, what: str) -> str:
        """Tell what happened, for a failure's message."""
        parts = [what, "writes:", *map(str, self.writes[-40:])]
        for operator in self.operators:
            parts += [f"exits {operator.exits}, log:"]
            parts += operator.log.read_text(errors="replace").splitlines()[-40:]
        return "\n".join(parts)

    async def met(self, *faults: Armed[Any, Any]) -> None:
        """Wait until each of these faults has befallen something."""
        async with self.within(PATIENCE, f"met: {[fault.where for fault in faults]}"):
            while not all(fault.hits for fault in faults):
                await asyncio.sleep(0.02)

    def expect_faults_were_met(self) -> None:
        """Fail if a fault was armed that has befallen nothing: a test without it says nothing."""
        unmet = self.kubelet.unmet() + [line for proxy in self.proxies for line in proxy.unmet()]
        assert not unmet, self.story("\n  ".join(["faults that were armed and never met:", *unmet]))

    @asynccontextmanager
    async def within(self, patience: float, what: str) -> AsyncIterator[None]:
        """Fail with the whole story if the block takes longer."""
        try:
            async with asyncio.timeout(patience):
                yield
        except TimeoutError:
            raise AssertionError(self.story(f"not within {patience} s: {what}")) from None


def is_pod_write(write: Write, method: str) -> bool:
    """Tell whether a write makes or deletes a Pod, rather than one of its subresources."""
    return (
        write.method == method
        and write.path.rstrip("/").split("/")[-1 if method == "POST" else -2] == "pods"
    )


def _wrong(message: Raw, pod: Raw, text: str) -> list[str]:
    """Tell what is wrong with a Message and its Pod."""
    meta, status = message["metadata"], message.get("status") or {}
    owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]
    environment = {v["name"]: v.get("value", "") for v in pod["spec"]["containers"][0]["env"]}
    conditions = status.get("conditions") or [{}]
    facts: dict[str, tuple[Any, Any]] = {
        "spec.text": (message["spec"]["text"], text),
        "owners": (owners, [meta["uid"]]),
        "text": (environment.get("MESSAGE_TEXT"), text.replace("$", "$$")),
        "image": (pod["spec"]["containers"][0]["image"], "docker.io/library/busybox:1.37"),
        "deletion": (pod["metadata"].get("deletionTimestamp"), None),
        "Pod's phase": (pod["status"].get("phase"), "Running"),
        "phase": (status.get("phase"), "Processed"),
        "generation": (status.get("observedGeneration"), meta["generation"]),
        "podName": (status.get("podName"), pod["metadata"]["name"]),
        "nodeName": (status.get("nodeName"), pod["spec"].get("nodeName")),
        "Ready": (conditions[0].get("status"), "True"),
        "reason": (conditions[0].get("reason"), "PodRunning"),
        "its generation": (conditions[0].get("observedGeneration"), meta["generation"]),
    }
    return [f"{meta['name']}: {k} is {a!r}, not {b!r}" for k, (a, b) in facts.items() if a != b]


@asynccontextmanager
async def world(cluster: Cluster) -> AsyncIterator[World]:
    """Have a namespace and a kubelet for it while the block lasts."""
    namespace = await cluster.new_namespace()
    await cluster.allow_here(namespace)
    async with AsyncExitStack() as stack:
        one = World(cluster, namespace, stack)
        running = asyncio.create_task(one.kubelet.run())
        try:
            yield one
            one.expect_faults_were_met()
        finally:
            await stack.aclose()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            await cluster.remove(f"/api/v1/namespaces/{namespace}")
