"""A `Subject` describes an operator to the fault suite, and a `Parent` one with children.

The suite creates an object, edits it, breaks it and its child, and checks that it recovers. What it
needs for that follows from the operator's own declaration and from its `desired`; a `Parent` adds
the spec of an object, and what differs or is promised beyond. A test module lists its SUBJECTS.
"""

import functools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from kopf_kit.crd import generated
from kopf_kit.project import documents, registered
from kopf_kit.project.rbac import SCANNING
from kopf_kit.testing import comparison
from kopf_kit.testing.api_server import OPERATOR, declared_rules, granted
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.webhook import Conversions
from kopf_runtime import Context, Controller, Manager, Settings
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring import readiness, settings
from kopf_runtime.declaring.kinds import Key, Kind
from kopf_runtime.process.runtime import own

#: A function that breaks the child at a path.
Break = Callable[[Cluster, str], Awaitable[None]]


async def lose(cluster: Cluster, child: str) -> None:
    """Delete the child at once."""
    await cluster.remove(child, grace=0)


class Subject(ABC):
    """An operator under test, and a kind that it serves."""

    #: The arguments for Python that run it, perhaps after the path of a Python of its own.
    program: tuple[str, ...]
    #: The operator as its code declares it.
    manager: Manager[Any]
    #: The Ready condition's reason of a healthy object.
    ready_reason = "Reconciled"
    #: The user that it runs as, and the Lease by which its replicas elect a leader, or nothing.
    user = OPERATOR
    lease = "operator"
    #: The path that answers 200 when its process is ready.
    ready = "/readyz"
    #: Whether it lists by pages.
    pages = True
    #: The timeout in seconds for everything that it has to do.
    patience = 120.0
    #: The Pod Security Standard of the tests' namespaces.
    pod_security = "restricted"
    #: Whether the suite tries replicas, sequences and all of the watches without `-m long`.
    thorough = True
    #: Tests of the suite that it is known to fail, as pytest names them, with the reason.
    fails: ClassVar[Mapping[str, str]] = {}

    def __str__(self) -> str:
        return self.kind.kind

    @property
    def controller(self) -> Controller:
        """The controller of the kind: by default of the one that is declared first."""
        return self.manager.controllers[0]

    @property
    def kind(self) -> Kind:
        return self.controller.kind

    @property
    @abstractmethod
    def creates(self) -> Kind:
        """A kind whose objects it creates in the cluster, so it must be allowed to."""

    def install(self) -> list[Raw]:
        """Return the objects that a cluster needs first: the CRDs."""
        return [generated.of(controller) for controller in own(self.manager.controllers)]

    @property
    def versions(self) -> list[Versions]:
        """The kinds of several versions, which the tests convert in its place."""
        every = (Versions.of(controller.declaration) for controller in self.manager.controllers)
        return [versions for versions in every if versions is not None]

    def flags(
        self, port: int, namespace: str, *further: str, everywhere: bool = False
    ) -> tuple[str, ...]:
        """Return the flags of a process that answers probes at a port; `further` are a test's own.

        It serves a namespace or all, and elects its leader in the namespace.
        """
        return (
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{port}",
            "--all-namespaces" if everywhere else f"--namespace={namespace}",
            f"--lease-namespace={namespace}",
            f"--lease-name={self.lease}",
            *(["--webhook-bind-address=0"] if self.versions or self.manager.webhooks else ()),
            "--resync-period=300",
            "--log-level=debug",
            *further,
        )

    def rights(self, namespace: str | None) -> list[Raw]:
        """Return the roles and bindings for one namespace and its Lease, or for all."""
        rules = declared_rules(self.manager)
        return granted(self.manager.program.name, rules, self.user, namespace)

    @abstractmethod
    def spec(self, text: str) -> Raw:
        """Return the spec of an object with a text; the suite ignores all other fields."""

    def spec_of(self, name: str, text: str) -> Raw:
        """Return the spec of the object with a name: override this if a value must be its own."""
        return self.spec(text)

    @property
    def crd(self) -> str:
        """The path of the kind's CRD."""
        return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.kind}"

    def manifest(self, text: str, name: str) -> Raw:
        """Return an object with a text."""
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {"name": name},
            "spec": self.spec_of(name, text),
        }


class Parent(Subject):
    """An operator whose objects have children; the suite harms one child of each object.

    In the end all of them have to be right: by default, a child is right if it has every field that
    `desired` returns for the object.
    """

    #: Whether the children hold data: each test checks that the operator asks to delete none.
    keeps = False
    #: A wrong status, which somebody may write by hand.
    wrong_status: ClassVar[Raw] = {"conditions": []}

    @property
    def child(self) -> Kind:
        """The kind of the child: by default the one that is declared first.

        An object has one child of this kind, and its manifest depends on the text.
        """
        return next(iter(self.owned))

    @property
    def owned(self) -> Collection[Kind]:
        """The kinds of all children."""
        return self.controller.declaration.owned

    @property
    def creates(self) -> Kind:
        return self.child

    @property
    def watched(self) -> Collection[Kind]:
        """The kinds that it watches, of its own and the child's."""
        return self.kind, self.child

    @property
    def breaks(self) -> Mapping[str, Break]:
        """Functions that break a child, by the name of the scenario."""
        return {"heal": lose, "alter": self.alter}

    @property
    def writes(self) -> Mapping[str, int]:
        """The minimum number of writes per scenario, which detects scenarios that test nothing.

        They are those of the children and of the status. A child that has Pods is ready some time
        after it was written, so the Event about it comes first.
        """
        event = int(self.child in readiness.UNREADY)
        return {
            "create": self._children + event + 1,
            "edit": event + 2,
            "burst": event + 2,
            "delete": 0,
            "recreate": self._children + event + 1,
            "heal": event + 1,
            "alter": event + 1,
            "status": 1,
            "conflict": self._children + event + 2,
        }

    @property
    def quick(self) -> Collection[str]:
        """The scenarios whose every write is tested without `-m long`."""
        return self.writes

    @functools.cached_property
    def _children(self) -> int:
        """How many children an object has."""
        return len(self.plan(_unsaved("hello"), "하나"))

    # --- what the operator plans ------------------------------------------------------------------

    @functools.cached_property
    def _settings(self) -> Settings:
        """The settings when no flag is given."""
        program, kind = self.manager.program, self.manager._kind_of_settings
        parsed: Settings = settings.parse(program, kind, [], {})
        return parsed

    def reads(self, namespace: str) -> Mapping[Kind, Mapping[Key, Any]]:
        """Return the context's `reads` for an object in a namespace, by default nothing."""
        return {}

    def plan(self, found: Raw, text: str) -> list[Raw]:
        """Return the manifests of an object's children, as if it had a text and were alone."""
        spec = self.spec_of(found["metadata"]["name"], text)
        body = msgspec.json.encode({**found, "spec": spec})
        thing = msgspec.json.decode(body, type=self.controller.declaration.type)
        key = space, _ = thing.metadata.key
        held = {
            i: {value: [key] for value in i.values(thing)}
            for i in self.controller.declaration.indexes
        }
        context = Context(self._settings, namespace=space, reads=self.reads(space), held=held)
        return [*map(comparison.as_stored, self.controller.declaration.desired(thing, context))]

    def planned(self, found: Raw, text: str) -> Raw:
        """Return the manifest of an object's child, as if the object had a text."""
        kind = self.child.api_version, self.child.kind
        plan = [
            child
            for child in self.plan(found, text)
            if (child["apiVersion"], child["kind"]) == kind
        ]
        assert len(plan) == 1, f"a {self} has {len(plan)} children of the kind {kind[1]}, not one"
        return plan[0]

    def further(self, found: Raw, text: str) -> dict[tuple[str, str], Raw]:
        """Return the manifests of an object's children of other kinds, by kind and name."""
        return {
            (child["kind"], child["metadata"]["name"]): child
            for child in self.plan(found, text)
            if child["kind"] != self.child.kind
        }

    def child_of(self, name: str) -> str:
        """Return the name of an object's child."""
        child: str = self.planned(_unsaved(name), "하나")["metadata"]["name"]
        return child

    def known_as(self, child: Raw) -> str:
        """Return the name that `plan` gives a child: override this if the API server chooses it.

        Only tests that neither edit an object nor harm its child find such a child.
        """
        name: str = child["metadata"]["name"]
        return name

    def foreign(self, name: str) -> Raw:
        """Return a foreign object with the name of an object's child."""
        planned = self.planned(_unsaved(name), "하나")
        if "replicas" in planned.get("spec", {}):
            planned["spec"]["replicas"] = 0
        labels = {"whose": "somebody"}
        return {**planned, "metadata": {"name": planned["metadata"]["name"], "labels": labels}}

    async def alter(self, cluster: Cluster, child: str) -> None:
        """Change the child at a path to that of an object with another text."""
        current = await cluster.ask("GET", child)
        (uid,) = comparison.owners(current, self.kind)
        owners = await cluster.items(self.kind.path(current["metadata"]["namespace"]))
        (owner,) = (owner for owner in owners if owner["metadata"]["uid"] == uid)
        for text in ("둘", "하나"):
            planned = self.planned(_unsaved(owner["metadata"]["name"], uid), text)
            values = comparison.compared(current, planned).values()
            if any(actual != other for actual, other in values):
                await cluster.patch(child, comparison.content(planned))
                return
        raise AssertionError(f"a {self.child.kind} is the same for each text; test another child")

    # --- the expectation --------------------------------------------------------------------------

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        """Return the actual and the expected values of an object with a text, and of its child."""
        return comparison.compared(child, self.planned(found, text))

    def status_facts(self, found: Raw) -> dict[str, tuple[Any, Any]]:
        """Return the actual and the expected values of what a correct object's status says."""
        generation, status = found["metadata"]["generation"], found.get("status") or {}
        conditions = status.get("conditions") or ()
        ready: Raw = next(
            (condition for condition in conditions if condition["type"] == "Ready"), {}
        )
        return {
            "observedGeneration": (status.get("observedGeneration"), generation),
            "Ready": (ready.get("status"), "True"),
            "reason": (ready.get("reason"), self.ready_reason),
            "its generation": (ready.get("observedGeneration"), generation),
        }

    def essence(self, child: Raw) -> Raw:
        """Return a child without its name, age and other values that differ between equal ones."""
        return comparison.essence(child, self.kind)

    def wrong(self, found: Raw, child: Raw, text: str) -> list[str]:
        """Return what is wrong with an object that should have a text, and with its child."""
        meta = found["metadata"]
        facts = {
            "spec": (found["spec"], {**found["spec"], **self.spec_of(meta["name"], text)}),
            "owners": (comparison.owners(child, self.kind), [meta["uid"]]),
            "deletion": (child["metadata"].get("deletionTimestamp"), None),
            **self.status_facts(found),
            **self.facts(found, child, text),
        }
        return [f"{meta['name']}: {k} is {a!r}, not {b!r}" for k, (a, b) in facts.items() if a != b]


def _unsaved(name: str, uid: str = "") -> Raw:
    """Return as much of an object as decoding needs."""
    meta = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": ""}
    return {"metadata": meta}


async def prepare(
    cluster: Cluster, *subjects: Subject, conversions: Conversions | None = None
) -> None:
    """Create a node and the CRDs of the operators, those of several versions with a conversion."""
    await cluster.add_node()
    for subject in subjects:
        versions = (
            {str(of_kind.kind): of_kind for of_kind in subject.versions} if conversions else {}
        )
        for manifest in subject.install():
            if conversions and (of_kind := versions.get(manifest["metadata"]["name"])):
                manifest["spec"]["conversion"] = conversions.of(cluster.plane, of_kind)
            await cluster.put(manifest)
        await cluster.serves(subject.kind)


#: The annotation in which kopf notes what it has handled, unless its settings say otherwise.
_HANDLED = "kopf.zalando.org/last-handled-configuration"


class Plain(Parent):
    """A plain kopf operator, each of whose objects has a child.

    Its code declares nothing that could be read, so kinds, CRDs, rights and the child are given
    here. The suite expects neither a status nor leader election of it, only that its handlers end.
    """

    #: Nobody asks its webhooks here, and kopf does not start without a server for them.
    program = (sys.executable, "-c", registered.server())
    lease = ""
    ready = "/healthz"
    #: kopf lists by pages if its settings have a `watching.chunk_size`.
    pages = False
    #: As in a namespace without labels.
    pod_security = "privileged"
    #: The file of the module that kopf runs, or the name of one that is installed.
    module: Path | str
    #: The files of its CRDs.
    crds: Sequence[Path]
    #: The kind that it serves, and that of the child.
    kind: Kind
    child: Kind
    #: An object that is deleted, or whose child is lost or altered, may take no write.
    writes: ClassVar = {
        "create": 2,
        "edit": 2,
        "burst": 2,
        "delete": 0,
        "recreate": 2,
        "heal": 0,
        "alter": 0,
    }

    @property
    def owned(self) -> Collection[Kind]:
        return (self.child,)

    @property
    def watched(self) -> Collection[Kind]:
        """Its own kind; override this if it also has handlers for the child's kind."""
        return (self.kind,)

    @abstractmethod
    def plan(self, found: Raw, text: str) -> list[Raw]:
        """Return the child of an object with a text: the fields of it that are compared."""

    @property
    def rules(self) -> list[Raw]:
        """The rules of its role: by default what kopf needs, and all rights on the child's kind."""
        return [
            {
                "apiGroups": [self.kind.group],
                "resources": [self.kind.plural, f"{self.kind.plural}/status"],
                "verbs": ["get", "list", "watch", "patch"],
            },
            {"apiGroups": [self.child.group], "resources": [self.child.plural], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        ]

    @property
    def versions(self) -> list[Versions]:
        return []

    def install(self) -> list[Raw]:
        """Return the CRDs in `crds`."""
        return [crd for file in self.crds for crd in documents.load_all(file.read_text())]

    def flags(
        self, port: int, namespace: str, *_: str, everywhere: bool = False
    ) -> tuple[str, ...]:
        """Return kopf's flags; it does not know those by which tests speed up the runtime."""
        scope = "--all-namespaces" if everywhere else f"--namespace={namespace}"
        liveness = f"--liveness=http://127.0.0.1:{port}{self.ready}"
        module = ("-m", self.module) if isinstance(self.module, str) else (str(self.module),)
        return ("run", *module, "--standalone", "--verbose", liveness, scope)

    def rights(self, namespace: str | None) -> list[Raw]:
        """Return its role, and one to look for namespaces and CRDs, as kopf does in any case."""
        name = f"{self.kind.plural}-operator"
        scanning = granted(f"{name}-{namespace}-scanning", [SCANNING], self.user, None)
        return [*granted(name, self.rules, self.user, namespace), *scanning]

    def status_facts(self, found: Raw) -> dict[str, tuple[Any, Any]]:
        """Return the spec for which all handlers have ended, as kopf notes it down, and the spec.

        A handler that fails is tried again, perhaps after a minute, so silence proves nothing.
        """
        noted = (found["metadata"].get("annotations") or {}).get(_HANDLED, "{}")
        return {"the handled spec": (json.loads(noted).get("spec"), found["spec"])}
