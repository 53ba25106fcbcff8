"""The chart as Helm renders it; used by every test of this folder."""

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig import tools, versions
from kopf_runtime.declaring import settings

CHART = PROJECT.chart
VERSION = PROJECT.version

#: What the tests install: release and namespace differ, so that mistaking one for the other shows.
RELEASE = "demo"
NAMESPACE = "operators"
FULLNAME = f"{RELEASE}-{PROJECT.name}"
#: What the objects outside of namespaces are called.
CLUSTER_NAME = f"{NAMESPACE}.{FULLNAME}"

#: The Kubernetes versions that are supported. The oldest is Chart.yaml's kubeVersion, the newest
#: is the last that kubernetes-validate knows.
OLDEST_KUBERNETES = versions.OLDEST
NEWEST_KUBERNETES = versions.NEWEST

Manifest = dict[str, Any]
Values = Mapping[str, Any]

_NOTHING: Values = {}


class HelmError(Exception):
    """Helm does not accept the chart or the values; the text is what it printed."""


#: What depends on Helm's version is tried with both.
PROGRAMS = ("helm3", "helm4")
#: What has many cases is tried with Helm 4 only where time is had: both render the same
#: (test_helm_4_renders_what_helm_3_does).
HELM_4_IN_TIME = ("helm3", pytest.param("helm4", marks=pytest.mark.long))
#: What is installed is tried with Helm 3 only where time is had: Helm 4 applies server-side, so it
#: meets more that can go wrong, and the tests on kind install with Helm 3.
HELM_3_IN_TIME = (pytest.param("helm3", marks=pytest.mark.long), "helm4")


def helm(*arguments: str | Path, stdin: str = "", program: str = "helm3") -> str:
    """Run Helm, return what it printed; raise `HelmError` with its error."""
    done = subprocess.run(
        [tools.path(program), *arguments], input=stdin, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


@functools.cache
def _template(
    values: str, chart: Path, release: str, namespace: str, kubernetes: str, program: str
) -> str:
    """Return what Helm renders, as JSON: many tests ask for the same, and that is quick to read."""
    text = helm(
        *("template", release, chart, "--namespace", namespace),
        *("--kube-version", kubernetes, "--values", "-"),
        stdin=values,
        program=program,
    )
    return json.dumps(documents.load_all(text))


def render(
    values: Values = _NOTHING,
    *,
    chart: Path = CHART,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    kubernetes: str = NEWEST_KUBERNETES,
    program: str = "helm3",
) -> list[Manifest]:
    """Return the objects that `helm install` would create with these values."""
    manifests: list[Manifest] = json.loads(
        _template(json.dumps(values), chart, release, namespace, kubernetes, program)
    )
    return manifests


def refusal(values: Values, *, program: str = "helm3") -> str:
    """Return the error that `helm install` stops with."""
    try:
        render(values, program=program)
    except HelmError as error:
        return str(error)
    raise AssertionError(f"Helm accepted {values}")


def find(manifests: list[Manifest], kind: str, name: str = FULLNAME) -> Manifest:
    """Return the only object of that kind and name."""
    found = [m for m in manifests if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} of {kind} {name} in {names(manifests)}"
    return found[0]


def names(manifests: list[Manifest]) -> list[tuple[str, str, str]]:
    """Return kind, namespace and name of each object; no namespace is an empty one."""
    return [
        (m["kind"], m["metadata"].get("namespace", ""), m["metadata"]["name"]) for m in manifests
    ]


def pod(values: Values = _NOTHING) -> Manifest:
    """Return the operator's Pod template."""
    (deployment,) = (m for m in render(values) if m["kind"] == "Deployment")
    template: Manifest = deployment["spec"]["template"]
    return template


def container(values: Values = _NOTHING) -> Manifest:
    """Return the operator's container."""
    (operator,) = (c for c in pod(values)["spec"]["containers"] if c["name"] == "operator")
    result: Manifest = operator
    return result


def endpoint(values: Values, program: str = "helm3") -> Manifest:
    """Return the only endpoint of the only monitor."""
    (monitor,) = (m for m in render(values, program=program) if m["kind"].endswith("Monitor"))
    (found,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    result: Manifest = found
    return result


def understood(
    arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> Any:
    """Return the settings that the operator reads from a command line and an environment."""
    module = PROJECT.module(PROJECT.manager)
    return settings.parse(module.manager.program, module.Settings, arguments, environment)


def kind_schema() -> Manifest:
    """Return the schema that the API server holds every object of the kind against."""
    crd = find(render(), "CustomResourceDefinition", PROJECT.kinds[0].crd)
    (version,) = crd["spec"]["versions"]
    schema: Manifest = version["schema"]["openAPIV3Schema"]
    return schema
