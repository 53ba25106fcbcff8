"""The operators in this checkout that have a file PROJECT, and values of the Message's chart."""

import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from chart import helm
from chart.helm import CHART, Manifest
from chart.unusual import REFERENCE
from kopf_kit.kubectl.subject import Right
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents, nested, rbac
from kopf_kit.project.definition import PROJECT, Project, load
from kopf_kit.rig import paths
from kopf_offline import golang

#: The scenarios that tests/e2e installs, too.
CI: dict[str, dict[str, Any]] = {
    file.name.removesuffix("-values.yaml"): documents.load(file.read_text())
    for file in sorted((CHART / "ci").glob("*-values.yaml"))
}
SCENARIOS = CI | {"unusual": REFERENCE}


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


def kubeconform(project: Project, *files: Path) -> str:
    """Return what kubeconform finds in manifests of a project's kinds; empty if it takes them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _schemas(project).items():
            Path(folder, name).write_text(text)
        form = f"{folder}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json"
        ended = subprocess.run(
            [golang.program("kubeconform"), "-strict", "-schema-location", form, *files],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
    assert (ended.returncode == 0) == (ended.stdout == ""), ended.stdout
    return ended.stdout


def _schemas(project: Project) -> dict[str, str]:
    if project.root == PROJECT.root:
        return {name: text for name, text in texts().items() if name.endswith(".json")}
    return {file.name: file.read_text() for file in project.deploy.glob("*.json")}


def rights(rules: Iterable[Manifest]) -> set[Right]:
    """Return the single rights that rules grant."""
    return {
        Right(*parts)
        for rule in rules
        for parts in itertools.product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames") or [""]
        )
    }


def bound_roles(*, release: str = helm.RELEASE, **values: object) -> list[Manifest]:
    """Return the roles that the chart binds to the operator."""
    manifests = helm.render(values, release=release)
    bound = {(m["roleRef"]["kind"], m["roleRef"]["name"]) for m in manifests if "roleRef" in m}
    return [m for m in manifests if (m["kind"], m["metadata"]["name"]) in bound]


def granted(roles: Iterable[Manifest], *kinds: str) -> set[Right]:
    """Return the rights that roles of these kinds grant."""
    return {right for role in roles if role["kind"] in kinds for right in rights(role["rules"])}
