"""The bundle of every operator in this checkout: OLM takes it, and its operator starts with it.

The tier `bundle` with PROJECT=examples/memcached runs these for that one alone; `make verify` holds
its bundle and its catalog against the rules of the catalogs' pipeline.
"""

import json
from typing import Any

import jsonschema
import pytest

from bundle.package import opm
from kopf_kit.olm.bundle import findings
from kopf_kit.project import documents
from kopf_kit.project.definition import Project
from kopf_runtime.declaring import settings
from tests.chart.projects import every_bundle, every_bundle_on_runtime

Manifest = dict[str, Any]


@pytest.fixture
def csv(project: Project) -> Manifest:
    manifests = project.built / "bundle" / "manifests"
    found: Manifest = documents.load(
        (manifests / f"{project.name}.clusterserviceversion.yaml").read_text()
    )
    return found


@every_bundle
def test_olm_s_validators_find_nothing(project: Project) -> None:
    assert findings(project.built / "bundle") == []
    assert opm("validate", project.built / "catalog") == ""


@every_bundle_on_runtime
def test_the_operator_starts_with_the_environment_of_the_deployment(
    project: Project, csv: Manifest
) -> None:
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {
        variable["name"]: variable["value"] for variable in container["env"] if "value" in variable
    }
    # The kubelet puts in the variables that stand before.
    for name, value in list(given.items()):
        for other, text in list(given.items()):
            given[name] = value = value.replace(f"$({other})", text)
    module = project.module(project.manager)

    found = settings.parse(module.manager.program, module.Settings, [], given)

    related = {image["name"]: image["image"] for image in csv["spec"]["relatedImages"]}
    assert found.leader_elect is True
    for image in project.images:
        assert getattr(found, image.flag.replace("-", "_")) == related[image.name]


@every_bundle
def test_the_examples_are_as_the_kinds_want_them(project: Project, csv: Manifest) -> None:
    schemas = {}
    for kind in project.kinds:
        file = f"{kind.qualified_group}_{kind.plural}.yaml"
        crd = documents.load((project.built / "bundle" / "manifests" / file).read_text())
        version = kind.shown(crd)
        schemas[kind.kind] = version["schema"]["openAPIV3Schema"]

    examples = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    assert {example["kind"] for example in examples} == schemas.keys()
    for example in examples:
        jsonschema.validate(example, schemas[example["kind"]])
        ready = [
            condition["type"] for condition in example.get("status", {}).get("conditions", [])
        ][:1]
        assert ready == ([] if project.adopted else ["Ready"])
