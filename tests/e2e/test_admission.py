"""What cannot work is refused at once, and the message says what to do."""

import json
from typing import Any

from tests.e2e.kube import Object
from tests.e2e.messages import Namespace


def manifest(spec: Any, name: str = "bad") -> str:
    """Return a Message as `kubectl apply` takes it; `spec` may be anything."""
    kind: Object = {"apiVersion": "myorg.dev/v1", "kind": "Message"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec})


#: Of what is refused: its name, its spec, and what kubectl prints.
BAD = {
    "a text of too many characters": (
        {"text": "x" * 32769},
        "spec.text: Too long: may not be more than 32768 bytes",
    ),
    "a text of too many bytes": (
        {"text": "가" * 10923},
        "spec.text must have at most 32768 bytes in UTF-8; shorten it, or split it into several "
        "Messages",
    ),
    "a NUL": (
        {"text": "a\0b"},
        "spec.text must not contain the NUL character (U+0000): no process can receive it in its "
        "environment; remove it",
    ),
    "a number for a text": (
        {"text": 7},
        'spec.text: Invalid value: "integer": spec.text in body must be of type string: "integer"',
    ),
    "a list for a text": (
        {"text": ["a", "b"]},
        'spec.text: Invalid value: "array": spec.text in body must be of type string: "array"',
    ),
    "a text for a spec": (
        "hello",
        'spec: Invalid value: "string": spec in body must be of type object: "string"',
    ),
    "no interval": (
        {"intervalSeconds": 0},
        "spec.intervalSeconds: Invalid value: 0: spec.intervalSeconds in body should be greater "
        "than or equal to 1",
    ),
    "a negative interval": (
        {"intervalSeconds": -1},
        "spec.intervalSeconds in body should be greater than or equal to 1",
    ),
    "an interval of more than a day": (
        {"intervalSeconds": 86401},
        "spec.intervalSeconds: Invalid value: 86401: spec.intervalSeconds in body should be less "
        "than or equal to 86400",
    ),
    "a text for an interval": (
        {"intervalSeconds": "10"},
        'spec.intervalSeconds: Invalid value: "string": spec.intervalSeconds in body must be of '
        'type integer: "string"',
    ),
    "a fraction for an interval": (
        {"intervalSeconds": 1.5},
        # It goes on with `integer: "number"` in Kubernetes 1.34, with `int32: "float64"` in 1.37.
        "spec.intervalSeconds in body must be of type int",
    ),
    "an unknown field": (
        {"txt": "hello"},
        'strict decoding error: unknown field "spec.txt"',
    ),
}
NAME_TOO_LONG = (
    "metadata.name must have at most 150 characters: the Pod is called msg-<name>, and a node "
    "cannot start a Pod with a longer name; choose a shorter one"
)


def test_bad_input_is_refused_with_the_reason(namespace: Namespace) -> None:
    cases = [(what, manifest(spec), reason) for what, (spec, reason) in BAD.items()]
    cases.append(("a name of too many characters", manifest({}, "m" * 151), NAME_TOO_LONG))
    for what, bad, reason in cases:
        said = namespace.kube.refusal("-n", namespace.name, "apply", "-f", "-", stdin=bad)

        assert reason in said, what
    assert namespace.kube.objects("Message", namespace.name)[0] == []


def test_a_bad_edit_is_refused_and_changes_nothing(namespace: Namespace) -> None:
    message = namespace.create("hello", "hello")

    said = namespace.kube.refusal(
        *("-n", namespace.name, "patch", "message", "hello", "--type=merge"),
        *("-p", '{"spec": {"intervalSeconds": 0}}'),
    )

    assert "spec.intervalSeconds in body should be greater than or equal to 1" in said
    spec = (message.get() or {})["spec"]
    assert spec == {"text": "hello", "intervalSeconds": 10}


def test_what_is_left_out_gets_its_default_and_what_just_fits_is_accepted(
    namespace: Namespace,
) -> None:
    def stored(name: str, spec: Any, *options: str) -> Any:
        namespace.kubectl("create", *options, "-f", "-", stdin=manifest(spec, name))
        return (namespace.message(name).get() or {})["spec"]

    for number, spec in enumerate((None, {}, {"text": None}, {"intervalSeconds": None})):
        default = {"text": "Hello from Operator!", "intervalSeconds": 10}
        assert stored(f"default-{number}", spec) == default
    largest = {"text": "x" * 32768, "intervalSeconds": 86400}
    assert stored("largest", largest) == largest
    assert stored("smallest", {"text": "", "intervalSeconds": 1})["text"] == ""
    assert stored("typo", {"text": "hello", "txt": "typo"}, "--validate=ignore") == {
        "text": "hello",
        "intervalSeconds": 10,
    }
