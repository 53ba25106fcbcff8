"""The operator of twenty lines as the fault suite sees it, run from docs/runtime.md itself."""

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from kopf_runtime.kinds import CONFIG_MAP, Kind
from tests.support.faults.cluster import Cluster, Raw
from tests.support.faults.rights import granted
from tests.support.faults.subject import Parent, lose

_CHECKOUT = Path(__file__).parents[2]
_EXAMPLE = _CHECKOUT / "examples" / "greeting"


def listing() -> str:
    """Return the first listing of docs/runtime.md: a whole operator."""
    page = (_CHECKOUT / "docs" / "runtime.md").read_text()
    code: str = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    return code


async def alter(cluster: Cluster, config_map: str) -> None:
    """Change what the operator has written."""
    await cluster.patch(config_map, {"data": {"text": "altered"}})


class Greetings(Parent):
    """The operator of docs/runtime.md, run from the page."""

    program = ("-c", listing())
    kind = Kind("example.dev", "v1", "greetings", "Greeting")
    child = CONFIG_MAP
    well = "Reconciled"
    wrong_status: ClassVar = {"conditions": []}
    breaks: ClassVar = {"heal": lose, "alter": alter}
    writes: ClassVar = {
        "create": 2, "edit": 2, "burst": 2, "delete": 0, "recreate": 2, "heal": 1, "alter": 1,
        "status": 1, "conflict": 3,
    }  # fmt: skip
    more_writes: ClassVar = {"burst": 6}  # each edit may be carried out by itself

    def install(self) -> list[Raw]:
        return [yaml.safe_load((_EXAMPLE / "crd.yaml").read_text())]

    def rights(self, namespace: str | None) -> list[Raw]:
        return granted(_EXAMPLE / "greetings.py", namespace)

    def spec(self, text: str) -> Raw:
        return {"name": text}

    def child_of(self, name: str) -> str:
        return f"greeting-{name}"

    def foreign(self, name: str) -> Raw:
        return {"metadata": {"name": self.child_of(name), "labels": {"whose": "somebody"}}}

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        return {"data": (child.get("data"), {"text": f"Hello, {text}!"})}

    def essence(self, child: Raw) -> Raw:
        return {"data": child["data"]}
