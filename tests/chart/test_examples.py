"""Every file of examples/ is a Message that the API server would take as it is."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.chart.helm import CHECKOUT, Manifest, message_schema

EXAMPLES = sorted((CHECKOUT / "examples").glob("*.yaml"))

each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def closed(schema: Any) -> Any:
    """Return the schema with unknown fields refused, as kubectl does."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: Manifest = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        result["additionalProperties"] = False
    return result


@each_example
def test_it_fits_the_schema(file: Path) -> None:
    message = yaml.safe_load(file.read_text())

    jsonschema.validate(message, closed(message_schema()))
    assert (message["apiVersion"], message["kind"]) == ("myorg.dev/v1", "Message")


@each_example
def test_it_begins_by_saying_what_it_shows(file: Path) -> None:
    assert file.read_text().startswith("# ")


@each_example
def test_it_is_named_after_its_file(file: Path) -> None:
    name = yaml.safe_load(file.read_text())["metadata"]["name"]

    assert name.removesuffix("-msg") == file.stem


def test_hello_says_hello_in_korean() -> None:
    hello = yaml.safe_load((CHECKOUT / "examples" / "hello.yaml").read_text())

    assert hello["metadata"]["name"] == "hello-msg"
    assert hello["spec"] == {"text": "안녕하세요, 오퍼레이터!"}
