"""The operators in this checkout that have a file PROJECT."""

import pytest

from kopf_kit.pack import nested
from kopf_kit.pack.project import PROJECT, Project, load
from kopf_kit.rig import paths


def projects() -> list[Project]:
    """Return the projects that are asked for: the one that PROJECT names, or all."""
    if not PROJECT.is_the_checkouts:
        return [nested.ensure(PROJECT)]
    examples = sorted(file.parent for file in paths.CHECKOUT.glob("examples/*/PROJECT"))
    return [PROJECT, *(nested.ensure(load(example)) for example in examples)]


_PROJECTS = projects()
every_project = pytest.mark.parametrize("project", _PROJECTS, ids=lambda project: project.name)
every_bundle = pytest.mark.parametrize(
    "project", [one for one in _PROJECTS if one.has_olm], ids=lambda project: project.name
)
