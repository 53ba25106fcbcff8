"""The suite of kopf-kit: the operator is killed after each write, and each request fails."""

from typing import Any

from kopf_kit.testing.conformance.every_write import *  # noqa: F403
from kopf_kit.testing.subject import Parent

from etcd_operator import operator


class Subject(Parent):
    """What the suite sets in an object; what must follow is what `desired` returns."""

    program = ("-m", "etcd_operator")
    manager = operator.manager

    def spec(self, text: str) -> dict[str, Any]:
        return {"text": text}


SUBJECTS = (Subject(),)
