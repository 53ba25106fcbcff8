"""The suite of kopf-kit: the operator is killed after each write, and each request fails."""

from typing import Any, ClassVar

from kopf_kit.testing import Parent
from kopf_kit.testing.conformance.every_write import *  # noqa: F403
from kopf_kit.testing.conformance.replicas import *  # noqa: F403
from kopf_kit.testing.conformance.sequences import *  # noqa: F403
from kopf_kit.testing.conformance.watches import *  # noqa: F403

from memcached_operator import operator

#: What a text of the suite's stands for.
SIZES = {"하나": 1, "둘": 2, "셋": 3, "넷": 4}


class Memcacheds(Parent):
    """What the suite sets in a Memcached; its child, a Deployment, has Pods."""

    program = ("-m", "memcached_operator")
    manager = operator.manager
    ready_reason = "Scaled"
    wrong_status: ClassVar = {"nodes": ["other"], "replicas": 9}
    quick = ()  # every write takes minutes, because the Pods must be ready: `-m long`
    thorough = False

    def spec(self, text: str) -> dict[str, Any]:
        return {"replicas": SIZES.get(text, 5)}

    def facts(
        self, found: dict[str, Any], child: dict[str, Any], text: str
    ) -> dict[str, tuple[Any, Any]]:
        replicas, status = self.spec(text)["replicas"], found.get("status") or {}
        return {
            **super().facts(found, child, text),
            "replicas": (child["spec"]["replicas"], replicas),
            "nodes": (len(status.get("nodes", ())), replicas),
            "status.replicas": (status.get("replicas"), replicas),
        }


SUBJECTS = (Memcacheds(),)
