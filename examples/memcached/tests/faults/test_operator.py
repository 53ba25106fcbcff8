"""The Memcached of examples/ as the fault suite sees it: its child, a Deployment, has Pods."""

from typing import Any, ClassVar

from examples.memcached import memcacheds
from kopf_kit.testing.cluster import Raw
from kopf_kit.testing.subject import Parent

#: What a text of the suite's stands for.
_SIZES = {"하나": 1, "둘": 2, "셋": 3, "넷": 4}


class Memcacheds(Parent):
    """The operator of examples/memcached, with the rights that it declares."""

    program = (memcacheds.__file__,)
    manager = memcacheds.manager
    well = "Scaled"
    wrong_status: ClassVar = {"nodes": ["other"], "replicas": 9}
    quick = ()  # a child that is applied, as a Greeting's; its Pods have tests of their own
    thorough = False

    def spec(self, text: str) -> Raw:
        return {"size": _SIZES.get(text, 5)}

    def facts(self, found: Raw, child: Raw, text: str) -> dict[str, tuple[Any, Any]]:
        size, status = self.spec(text)["size"], found.get("status") or {}
        return {
            **super().facts(found, child, text),
            "replicas": (child["spec"]["replicas"], size),
            "nodes": (len(status.get("nodes", ())), size),
            "status.replicas": (status.get("replicas"), size),
        }
