"""kopf-kit's conformance suite over fastflow's operator: the Task of a Workflow.

It runs each Workflow once. So only the tests are here that neither edit one nor harm its Task.
"""

from typing import ClassVar

import yaml
from described import CREDENTIALS, HERE, REFUSED, Released  # beside this file, where it runs

from kopf_kit.testing.conformance.every_write import *  # noqa: F403 (the tests)
from kopf_kit.testing.conformance.watches import (
    test_a_token_that_is_refused_is_found_anew,  # noqa: F401
    test_lists_and_watches_are_refused_for_a_while,  # noqa: F401
)
from kopf_kit.testing.requests import Raw
from kopf_runtime.declaring.kinds import Kind


class Workflows(Released):
    """A text is what the only Task says."""

    module = HERE / "serve.py"
    kind = Kind("fastflow.dev", "beta-1", "workflows", "Workflow")
    child = Kind("fastflow.dev", "beta-1", "tasks", "Task")
    writes: ClassVar = {"create": 6}

    def spec(self, text: str) -> Raw:
        return {"dag": yaml.safe_dump([self._task(text)])}

    def _task(self, text: str) -> Raw:
        return {"name": "first", "impl": "Echo", "inputs": {"args": [text]}}

    def plan(self, found: Raw, text: str) -> list[Raw]:
        return [
            {
                "apiVersion": self.child.api_version,
                "kind": self.child.kind,
                "metadata": {"name": found["metadata"]["name"]},
                "spec": self._task(text),
            }
        ]

    def known_as(self, child: Raw) -> str:
        """Return the name of its Workflow: its own is chosen by the API server."""
        name: str = child["metadata"]["labels"]["workflow"]
        return name

    fails: ClassVar = {
        "test_a_fault_at_every_single_write[Workflow-create]": REFUSED,
        "test_429_waits_as_long_as_it_is_told": REFUSED,
        "test_a_token_that_is_refused_is_found_anew": CREDENTIALS,
    }


SUBJECTS = (Workflows(),)
