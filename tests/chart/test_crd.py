"""The CustomResourceDefinition: what a Message may say, and how it is shown.

What the API server answers to bad input is tested on a real one, in tests/faults.
"""

import re
from collections.abc import Iterator

import jsonschema
import pytest

from chart.helm import Manifest, find, kind_schema, render

SPEC = kind_schema()["properties"]["spec"]["properties"]


def crd(**values: object) -> Manifest:
    """Return the CustomResourceDefinition as rendered with these values below `crds`."""
    return find(render({"crds": values}), "CustomResourceDefinition", "messages.myorg.dev")


def schemas(schema: Manifest, path: str = "") -> Iterator[tuple[str, Manifest]]:
    """Yield path and schema of every field, the root first."""
    yield path or ".", schema
    for name, field in schema.get("properties", {}).items():
        yield from schemas(field, f"{path}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


ALL = dict(schemas(kind_schema()))
RULES = {
    f"{path} {rule['rule']}": rule
    for path, schema in ALL.items()
    for rule in schema.get("x-kubernetes-validations", ())
}


def test_the_longest_text_fits_into_the_environment_with_every_dollar_doubled() -> None:
    # Linux: MAX_ARG_STRLEN, one string of the environment with its name and the NUL at its end.
    linux = 131072
    bound = limit(SPEC["text"], "bytes(self)")

    assert 2 * bound <= 64 * 1024 <= linux - len("MESSAGE_TEXT=\0")


def test_the_bounds_in_characters_and_in_bytes_are_the_same() -> None:
    # The API server says "bytes" when it refuses a text for its number of characters.
    assert SPEC["text"]["maxLength"] == limit(SPEC["text"], "bytes(self)")


def test_the_longest_name_makes_a_pod_that_a_node_can_start() -> None:
    longest = limit(kind_schema(), "self.metadata.name")
    pod, namespace, uid = len("msg-") + longest, 63, 36

    # The API server's bound for the name of a Pod.
    assert pod <= 253
    # The kubelet's: it keeps the logs in a directory called <namespace>_<pod>_<uid>.
    assert namespace + 1 + pod + 1 + uid <= 255


def limit(schema: Manifest, measured: str) -> int:
    """Return the bound that a rule of the form `size(<measured>) <= <bound>` sets."""
    for rule in schema["x-kubernetes-validations"]:
        if found := re.fullmatch(rf"size\({re.escape(measured)}\) <= (\d+)", rule["rule"]):
            return int(found[1])
    raise AssertionError(f"no rule bounds {measured}")


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_explains_itself(rule: str) -> None:
    message = RULES[rule]["message"]

    # Where it is, what is wrong, and what to do.
    assert message.startswith(("spec.", "metadata."))
    assert "must" in message
    assert ";" in message
    # The API server refuses line breaks in all of them.
    assert not [key for key, text in RULES[rule].items() if "\n" in text]


def test_every_string_and_list_of_the_status_is_bounded() -> None:
    for path, schema in ALL.items():
        if path.startswith(".status") and schema["type"] == "string":
            assert {"maxLength", "enum", "format"} & schema.keys(), path
        if schema["type"] == "array":
            assert "maxItems" in schema, path


@pytest.mark.parametrize("field", ["podName", "nodeName"])
@pytest.mark.parametrize(
    "name", ["--server=https://127.0.0.1:1", "-A", "a b", "a\nb", "a=b", "\x1b[31m", "a" * 254, ""]
)
def test_r1_a_name_in_the_status_is_a_name(field: str, name: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(name, ALL[f".status.{field}"])

    jsonschema.validate("node-1.example.com", ALL[f".status.{field}"])
