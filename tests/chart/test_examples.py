"""Every file of examples/ is a Message that the API server would take as it is."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from chart.helm import Manifest, kind_schema
from hack import home
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.project.definition import load
from kopf_kit.rig.paths import CHECKOUT
from tests.chart.projects import kubeconform

EXAMPLES = sorted((CHECKOUT / "examples").glob("*.yaml"))

each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


RELEASE = f"{home.declared().page}/releases/latest/download/"
#: What an editor holds an example against, as its first line says.
SCHEMA = re.compile(r"# yaml-language-server: \$schema=(\S+)\n# \S")


def schema(file: Path) -> Manifest:
    """Return the schema that a file names in its first line."""
    named = SCHEMA.match(file.read_text())
    assert named, f"{file} names no schema"
    found: Manifest = json.loads(texts()[named[1].removeprefix(RELEASE)])
    return found


@each_example
def test_it_fits_the_schema(file: Path) -> None:
    message = documents.load(file.read_text())

    jsonschema.validate(message, schema(file), jsonschema.Draft7Validator)
    jsonschema.validate(message, kind_schema())
    assert (message["apiVersion"], message["kind"]) == ("myorg.dev/v1", "Message")


def test_kubeconform_takes_them_all() -> None:
    assert kubeconform(load(CHECKOUT), *EXAMPLES) == ""


@pytest.mark.parametrize(
    ("typo", "told"),
    [
        ({"spec": {"txt": "hello"}}, "'txt' was unexpected"),
        ({"spec": {"intervalSeconds": "10"}}, "'10' is not of type 'integer'"),
        ({"spec": {"intervalSeconds": 0}}, "0 is less than the minimum of 1"),
        ({"specs": {}}, "'specs' was unexpected"),
        ({"metadata": {"name": "hello", "label": {}}}, "'label' was unexpected"),
        ({"metadata": {"name": "hello", "labels": {"a": 1}}}, "1 is not of type 'string'"),
        ({"metadata": {}}, "'name' is a required property"),
        ({"kind": "Mesage"}, "'Mesage' is not one of ['Message']"),
        ({"apiVersion": "myorg.dev/v2"}, "'myorg.dev/v2' is not one of ['myorg.dev/v1']"),
    ],
    ids=str,
)
def test_a_typo_is_told(typo: Manifest, told: str) -> None:
    message = {"apiVersion": "myorg.dev/v1", "kind": "Message", "metadata": {"name": "hello"}}
    checker = jsonschema.Draft7Validator(schema(EXAMPLES[0]))
    assert checker.is_valid(message)

    errors = [
        part.message
        for error in checker.iter_errors({**message, **typo})
        for part in (error, *(error.context or ()))
    ]

    assert any(told in error for error in errors), errors


def test_a_message_as_it_is_in_the_cluster_fits() -> None:
    file = CHECKOUT / "bundle" / "manifests" / "message-operator.clusterserviceversion.yaml"
    annotations = documents.load(file.read_text())["metadata"]["annotations"]
    messages = [m for m in json.loads(annotations["alm-examples"]) if "status" in m]

    assert messages
    for message in messages:
        jsonschema.validate(message, schema(EXAMPLES[0]), jsonschema.Draft7Validator)


def test_hello_says_hello_in_korean() -> None:
    hello = documents.load((CHECKOUT / "examples" / "hello.yaml").read_text())

    assert hello["metadata"]["name"] == "hello-msg"
    assert hello["spec"] == {"text": "안녕하세요, 오퍼레이터!"}
