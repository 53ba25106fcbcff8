"""Values are documented once, and bad ones stop with a sentence that says what is wrong."""

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from tests.chart.helm import CHART, Manifest, Values, refusal, render

SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: Manifest = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicas": 2}, "at '': additional properties 'replicas' not allowed"),
        ({"image": {"tagg": "1"}}, "at '/image': additional properties 'tagg' not allowed"),
        ({"replicaCount": "2"}, "at '/replicaCount': got string, want integer"),
        ({"image": {"tag": 1.2}}, "at '/image/tag': got number, want string"),
        ({"watchNamespaces": "a"}, "at '/watchNamespaces': got string, want array"),
        ({"watchNamespaces": ["A_b"]}, "at '/watchNamespaces/0': 'A_b' does not match pattern"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
        ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
        (
            {"logging": {"level": "INFO"}},
            "at '/logging/level': value must be one of 'debug', 'info', 'warning', 'error'",
        ),
        ({"crds": None}, "at '': missing property 'crds'"),
        (
            {"replicaCount": 2, "leaderElection": {"enabled": False}},
            "replicaCount is 2, but leaderElection.enabled is false",
        ),
        (
            {"serviceAccount": {"create": False}},
            "serviceAccount.create is false, so serviceAccount.name must say",
        ),
    ],
    ids=str,
)
def test_bad_values_are_refused_with_one_clear_sentence(values: Values, sentence: str) -> None:
    message = refusal(values)

    assert message.count(sentence) == 1
    assert len([line for line in message.splitlines() if line.startswith("- at")]) <= 1


def test_a_parent_chart_may_share_any_global_value() -> None:
    render({"global": {"storageClass": "fast"}})


def test_a_map_or_list_can_be_emptied_by_null() -> None:
    empty = {name: None for name, value in DEFAULTS.items() if isinstance(value, dict | list)}
    sections = {name for name in empty if name in SCHEMA["required"]}

    render(dict.fromkeys(empty.keys() - sections))


def test_the_defaults_fit_their_own_schema() -> None:
    jsonschema.validate(DEFAULTS, SCHEMA)


def described(schema: Manifest, path: str = "") -> dict[str, str]:
    """Return the description of every value below a schema, by its path."""
    found: dict[str, str] = {}
    for name, value in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if "description" in value:
            found[where] = value["description"]
        # What an open map may hold is described in the schema alone.
        if value.get("additionalProperties") is False:
            found |= described(value, where)
    return found


def commented() -> dict[str, str]:
    """Return the `# -- ` comment of every value in values.yaml, by its path."""
    found: dict[str, str] = {}
    path: list[str] = []
    comment: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if match := re.fullmatch(r" *# -- (.*)", line):
            comment = [match[1]]
        elif comment and (match := re.fullmatch(r" *# (.*)", line)):
            comment.append(match[1])
        elif match := re.match(r"( *)(\w+):", line):
            path = [*path[: len(match[1]) // 2], match[2]]
            if comment:
                found[".".join(path)] = " ".join(comment)
            comment = []
    return found


def leaves(schema: Manifest, values: Any, path: str = "") -> set[str]:
    """Return the paths of all values that are not sections of values.yaml."""
    if path and schema.get("additionalProperties") is not False:
        return {path}
    return {
        leaf
        for name, value in values.items()
        for leaf in leaves(schema["properties"][name], value, f"{path}.{name}" if path else name)
    }


def test_every_value_has_a_comment_and_the_schema_repeats_it() -> None:
    assert commented().keys() == leaves(SCHEMA, DEFAULTS)
    assert described(SCHEMA) == commented()


def test_every_value_of_the_schema_has_a_default() -> None:
    def sections(schema: Manifest, values: Any) -> None:
        assert schema["properties"].keys() == values.keys()
        for name, below in schema["properties"].items():
            if below.get("additionalProperties") is False:
                sections(below, values[name])

    sections(SCHEMA, DEFAULTS)
