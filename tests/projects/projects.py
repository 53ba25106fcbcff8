"""The operators in this checkout that have a file PROJECT."""

import pytest

from kopf_kit.pack import nested
from kopf_kit.pack.project import PROJECT, REFERENCE, Project, load


def projects() -> list[Project]:
    """Return the projects that are asked for: the one that PROJECT names, or all."""
    if PROJECT.root != REFERENCE.root:
        return [nested.ensure(PROJECT)]
    examples = sorted(file.parent for file in REFERENCE.root.glob("examples/*/PROJECT"))
    return [REFERENCE, *(nested.ensure(load(example)) for example in examples)]


every_project = pytest.mark.parametrize("project", projects(), ids=lambda project: project.name)
