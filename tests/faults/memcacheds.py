"""The Memcached of examples/ as the fault suite sees it: its child, a Deployment, has Pods."""

from pathlib import Path
from typing import Any

import yaml

from kopf_runtime.kinds import DEPLOYMENT, Kind
from tests.support.faults.cluster import Cluster, Raw
from tests.support.faults.rights import granted
from tests.support.faults.subject import Parent, lose

EXAMPLE = Path(__file__).parents[2] / "examples" / "memcached"
#: What a text of the suite's stands for.
_SIZES = {"하나": 1, "둘": 2, "셋": 3, "넷": 4}


async def scale(cluster: Cluster, deployment: str) -> None:
    """Have one replica more than the suite's Memcached has."""
    await cluster.patch(deployment, {"spec": {"replicas": 2}})


class Memcacheds(Parent):
    """The operator of examples/memcached, with the rights that it declares."""

    program = (str(EXAMPLE / "memcacheds.py"),)
    kind = Kind("cache.example.com", "v1alpha1", "memcacheds", "Memcached")
    child = DEPLOYMENT
    well = "Scaled"
    wrong_status = {"nodes": ["other"], "replicas": 9}  # noqa: RUF012
    breaks = {"heal": lose, "alter": scale}  # noqa: RUF012
    writes = {  # noqa: RUF012
        "create": 3, "edit": 3, "burst": 3, "delete": 0, "recreate": 3, "heal": 2, "alter": 2,
        "status": 1, "conflict": 4,
    }  # fmt: skip

    quick = ()  # a child that is applied, as a Greeting's; its Pods have tests of their own

    def install(self) -> list[Raw]:
        return [yaml.safe_load((EXAMPLE / "crd.yaml").read_text())]

    def rights(self, namespace: str | None) -> list[Raw]:
        return granted(EXAMPLE / "memcacheds.py", namespace)

    def spec(self, text: str) -> Raw:
        return {"size": _SIZES.get(text, 5)}

    def child_of(self, name: str) -> str:
        return name

    def foreign(self, name: str) -> Raw:
        container = {"name": "c", "image": "i"}
        labels = {"whose": "somebody"}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }  # fmt: skip

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        size, status = self.spec(text)["size"], found.get("status") or {}
        return {
            "replicas": (child["spec"]["replicas"], size),
            "nodes": (len(status.get("nodes", ())), size),
            "status.replicas": (status.get("replicas"), size),
            "generation": (status.get("observedGeneration"), found["metadata"]["generation"]),
        }

    def essence(self, child: Raw) -> Raw:
        labels = child["metadata"]["labels"]
        return {"replicas": child["spec"]["replicas"], "app": labels["app.kubernetes.io/name"]}
