"""A `Plain` describes an operator that kopf runs without the runtime: `kopf run module.py`."""

import json
import sys
from abc import abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kopf_kit.pack import admission, documents
from kopf_kit.pack.watched import SCANNING
from kopf_kit.testing.cluster import Raw
from kopf_kit.testing.rights import granted
from kopf_kit.testing.subject import Parent
from kopf_runtime.converting.versions import Versions
from kopf_runtime.declaring.kinds import Kind

#: The annotation in which kopf notes what it has handled, unless its settings say otherwise.
_HANDLED = "kopf.zalando.org/last-handled-configuration"


class Plain(Parent):
    """A plain kopf operator, each of whose objects has a child.

    Its code declares nothing that could be read, so kinds, CRDs, rights and the child are given
    here. The suite expects neither a status nor leader election of it, only that its handlers end.
    """

    #: Nobody asks its webhooks here, and kopf does not start without a server for them.
    program = (sys.executable, "-c", admission.server())
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

    def told(self, found: Raw) -> dict[str, tuple[Any, Any]]:
        """Return the spec for which all handlers have ended, as kopf notes it down, and the spec.

        A handler that fails is tried again, perhaps after a minute, so silence proves nothing.
        """
        noted = (found["metadata"].get("annotations") or {}).get(_HANDLED, "{}")
        return {"the handled spec": (json.loads(noted).get("spec"), found["spec"])}
