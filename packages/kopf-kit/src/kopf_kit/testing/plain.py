"""A `Plain` describes an operator that kopf runs without the runtime: `kopf run module.py`."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import ClassVar

import yaml

from kopf_kit.testing.cluster import Raw
from kopf_kit.testing.rights import granted
from kopf_kit.testing.subject import Parent
from kopf_runtime.declaring.kinds import Kind


class Plain(Parent):
    """A plain kopf operator, whose objects have one child each, and perhaps others.

    Nothing of it is declared, so it is described here: kinds, CRDs, rights and the children. It is
    not expected to have a status or an election, nor to know the flags by which tests of the suite
    speed things up.
    """

    program = ("-m", "kopf")
    lease = ""
    ready = "/healthz"
    #: The module that kopf runs, the kind that it serves, and that of the child.
    module: Path
    kind: Kind
    child: Kind
    #: The files of its CRDs, and the rules of its role.
    crds: Sequence[Path]
    rules: Sequence[Raw]
    #: Whoever heals no child writes nothing when one is lost or altered.
    writes: ClassVar = {
        "create": 2, "edit": 2, "burst": 2, "delete": 0, "recreate": 2, "heal": 0, "alter": 0,
    }  # fmt: skip

    @property
    def owned(self) -> Collection[Kind]:
        return (self.child,)

    @abstractmethod
    def plan(self, found: Raw, text: str) -> list[Raw]:
        """Return the manifests of an object's children, as if it had a text."""

    def install(self) -> list[Raw]:
        return [one for file in self.crds for one in yaml.safe_load_all(file.read_text())]

    def flags(
        self, port: int, namespace: str, *_: str, everywhere: bool = False
    ) -> tuple[str, ...]:  # fmt: skip
        scope = "--all-namespaces" if everywhere else f"--namespace={namespace}"
        liveness = f"--liveness=http://127.0.0.1:{port}{self.ready}"
        return ("run", str(self.module), "--standalone", "--verbose", liveness, scope)

    def rights(self, namespace: str | None) -> list[Raw]:
        return granted(f"{self.kind.plural}-operator", self.rules, self.user, namespace)

    def told(self, _: Raw) -> dict[str, tuple[object, object]]:
        return {}
