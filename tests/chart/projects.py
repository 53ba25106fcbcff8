"""The operators in this checkout that have a file PROJECT."""

from collections.abc import Callable
from typing import Any

import pytest

from kopf_kit.project import nested, rbac
from kopf_kit.project.definition import PROJECT, Project, load
from kopf_kit.rig import paths


def projects() -> list[Project]:
    """Return the projects that are asked for: the one that PROJECT names, or all."""
    if not PROJECT.is_the_checkouts:
        return [nested.ensure(PROJECT)]
    examples = sorted(file.parent for file in paths.CHECKOUT.glob("examples/*/PROJECT"))
    return [PROJECT, *(nested.ensure(load(example)) for example in examples)]


PROJECTS = projects()


def _each(projects: list[Project]) -> Callable[[Any], Any]:
    if not projects:
        return lambda test: None  # with PROJECT, which names one of the other kind
    return pytest.mark.parametrize("project", projects, ids=lambda project: project.name)


#: Those on kopf-runtime have more to test: their flags, their metrics, what their code declares.
_ON_RUNTIME = [project for project in PROJECTS if project.base == "runtime"]
every_project = _each(PROJECTS)
every_bundle = _each([project for project in PROJECTS if project.has_olm])
every_project_on_runtime = _each(_ON_RUNTIME)
every_bundle_on_runtime = _each([project for project in _ON_RUNTIME if project.has_olm])
every_adopted_project = _each([project for project in PROJECTS if project.adopted])


def declared_rules(project: Project) -> list[rbac.Rule]:
    """Return the rules that an operator needs in each watched namespace."""
    if project.adopted:
        return [rule for _, rule in rbac.rights(project).watched]
    return [rule for _, rule in rbac.rules(project.module(project.manager).manager)]
