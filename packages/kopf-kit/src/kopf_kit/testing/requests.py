"""The tests' own requests to the API server, without a proxy, and the setup of the cluster."""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from kopf_kit.rig.control_plane import ADMIN, ControlPlane
from kopf_runtime.declaring.kinds import Kind

Raw = dict[str, Any]

NODE = "node-1"
_ENFORCE = "pod-security.kubernetes.io/enforce"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class RefusedError(Exception):
    """The API server refused a request; the text is its message."""

    def __init__(self, status: int, answer: Raw) -> None:
        super().__init__(f"{status}: {answer.get('message')}")
        self.status = status
        self.message = str(answer.get("message"))


class Cluster:
    """A client of the API server with all rights."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self.plane = plane
        self.session = session

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        accept: str = "application/json",
    ) -> Raw:
        """Send one request; raise `RefusedError` if it is refused.

        Retry after a 429, "storage is (re)initializing", which follows a start or a new kind.
        """
        for _ in range(100):
            try:
                return await self._ask(method, path, body, kind, accept)
            except RefusedError as error:
                if error.status != 429:
                    raise
            await asyncio.sleep(0.1)
        return await self._ask(method, path, body, kind, accept)

    async def _ask(self, method: str, path: str, body: Any, kind: str, accept: str) -> Raw:
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(
            method,
            self.plane.server + path,
            data=data,
            headers={"Content-Type": kind, "Accept": accept},
        ) as response:
            payload = await response.read()
            if response.content_type != "application/json":  # "404 page not found"
                payload = json.dumps({"message": payload.decode()}).encode()
            answer: Raw = json.loads(payload)
            if response.status >= 400:
                raise RefusedError(response.status, answer)
            return answer

    async def find(self, path: str) -> Raw | None:
        """Return an object, or None."""
        try:
            return await self.ask("GET", path)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    async def attempt(self, method: str, path: str, body: Any = None) -> None:
        """Send one request that may be refused."""
        with contextlib.suppress(RefusedError):
            await self.ask(method, path, body)

    async def items(self, path: str) -> list[Raw]:
        """Return all objects of a collection."""
        items: list[Raw] = (await self.ask("GET", path)).get("items") or []
        return items

    async def patch(self, path: str, body: Raw) -> Raw:
        """Merge the body into an object."""
        return await self.ask("PATCH", path, body, "application/merge-patch+json")

    async def remove(self, path: str, *, grace: int | None = None) -> None:
        """Delete an object that may be gone."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            await self.ask("DELETE", path, options)
        except RefusedError as error:
            if error.status != 404:
                raise

    async def put(self, manifest: Raw) -> None:
        """Create an object of one of the kinds that are set up here, unless it exists."""
        try:
            await self.ask("POST", _collection(manifest), manifest)
        except RefusedError as error:
            if error.status != 409:
                raise

    async def take_back(self, manifest: Raw) -> None:
        """Delete what `put` created."""
        await self.remove(f"{_collection(manifest)}/{manifest['metadata']['name']}")

    async def add_node(self) -> None:
        """Add a node with room for every Pod of the tests."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        await self.put(node)
        room = {"cpu": "64", "memory": "64Gi", "pods": "20000"}
        status = {"status": {"capacity": room, "allocatable": room}}
        await self.patch(f"/api/v1/nodes/{NODE}/status", status)

    async def serves(self, kind: Kind, patience: float = 60) -> None:
        """Wait, for `patience` seconds, until a kind is served; its objects are converted first."""
        async with asyncio.timeout(patience):
            while True:
                with contextlib.suppress(RefusedError):
                    await self.ask("GET", f"{kind.path()}?limit=1")
                    return
                await asyncio.sleep(0.05)

    async def until_allowed(
        self, user: str, verb: str, kind: Kind, namespace: str, now: bool = True
    ) -> None:
        """Wait until the API server applies a new or removed right of a user."""
        attributes = {
            "verb": verb,
            "group": kind.group,
            "resource": kind.plural,
            "namespace": namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        async with asyncio.timeout(60):
            while (await self.ask("POST", REVIEWS, review))["status"]["allowed"] is not now:
                await asyncio.sleep(0.05)

    async def new_namespace(self, pod_security: str = "restricted") -> str:
        """Create a namespace with this Pod Security Standard; return its name."""
        name = f"t-{secrets.token_hex(4)}"
        meta = {"name": name, "labels": {_ENFORCE: pod_security}}
        await self.ask("POST", "/api/v1/namespaces", {"metadata": meta})
        return name

    async def remove_namespace(self, name: str) -> None:
        """Let nothing more be created in a namespace, which ends with the API server.

        Its controller waits for its Pods first, here for one with a day to end. It would ask for
        all kinds again and again, which was a third of the API server's work.
        """
        spec = {"nodeName": NODE, "terminationGracePeriodSeconds": 86400}
        container = {"name": "last", "image": "none"}
        pod = {"metadata": {"name": "last"}, "spec": {**spec, "containers": [container]}}
        path = f"/api/v1/namespaces/{name}"
        with contextlib.suppress(RefusedError):  # it is gone, or the test's quota is used up
            await self.patch(path, {"metadata": {"labels": {_ENFORCE: "privileged"}}})
            await self.ask("POST", f"{path}/pods", pod)
        await self.remove(path)


@asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[Cluster]:
    """Return a client for the block."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=False),
        headers={"Authorization": f"Bearer {ADMIN}"},
        timeout=aiohttp.ClientTimeout(total=BOUND),
    ) as session:
        yield Cluster(plane, session)


def _collection(manifest: Raw) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    namespace = manifest["metadata"].get("namespace")
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{kind.lower()}s"


T = TypeVar("T")

#: Seconds. Far more than anything takes on a busy machine: only what never comes runs into it.
BOUND = 300.0


def wait_until(
    what: str, look: Callable[[], T], holds: Callable[[T], object], *, bound: float = BOUND
) -> T:
    """Look less and less often until it holds; return what was seen then.

    Fails after `bound` seconds with `what`, which completes "waited for …".
    """
    began = time.monotonic()
    while not holds(seen := look()):
        waited = time.monotonic() - began
        if waited > bound:
            raise AssertionError(f"waited {bound:g} s for {what}; last seen: {seen}")
        time.sleep(min(max(0.25, waited / 6), 2.0))  # looking keeps a machine busy, too
    return seen
