"""What kubectl prints when it fails is recognized; the lines are those of kubectl 1.36."""

import pytest

from kopf_kit.kubectl import client, subject, why
from kopf_kit.kubectl.client import Kubectl, KubectlError, refusal
from kubectl.clusters import SUBJECT

subject.use(SUBJECT)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ('error: the server doesn\'t have a resource type "messages"', "no-kind"),
        (
            'Error from server (NotFound): Unable to list "myorg.dev/v1, Resource=messages": the '
            "server could not find the requested resource (get messages.myorg.dev)",
            "no-kind",
        ),
        (
            'Error from server (Forbidden): messages.myorg.dev is forbidden: User "nobody" cannot '
            'list resource "messages" in API group "myorg.dev" in the namespace "a"',
            "forbidden",
        ),
        ("error: You must be logged in to the server (Unauthorized)", "login"),
        (
            "Unable to connect to the server: getting credentials: exec: executable aws not found",
            "login",
        ),
        ('Error from server (NotFound): pods "msg-a" not found', "not-found"),
        ('error: context "nope" does not exist', "config"),
        ("Error in configuration: context was not found for specified context: nope", "config"),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right "
            "host or port?",
            "config",
        ),
        ("error: unknown flag: --output-watch-events", "old"),
        ("Unable to connect to the server: dial tcp: lookup a: no such host", "unreachable"),
        (
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the right "
            "host or port?",
            "unreachable",
        ),
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate "
            "signed by unknown authority",
            "unreachable",
        ),
        (
            "Unable to connect to the server: net/http: request canceled while waiting for "
            "connection (Client.Timeout exceeded while awaiting headers)",
            "unreachable",
        ),
        ('The Message "a" is invalid: spec.text: Too long', "other"),
    ],
)
def test_what_kubectl_prints_is_recognized(said: str, key: str) -> None:
    assert refusal(said).key == key


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('error: the path "a.yaml" does not exist', "cannot be read"),
        ("error: open a.yaml: permission denied", "cannot be read"),
        (
            "error: error reading [a.yaml]: recognized file extensions are [.json .yaml .yml]",
            "cannot be read",
        ),
        ("error: error parsing a.yaml: unexpected EOF", "is not a manifest"),
        (
            "error: error parsing a.yaml: error converting YAML to JSON: yaml: control characters "
            "are not allowed",
            "is not a manifest",
        ),
        (
            'error: error validating "a.yaml": error validating data: invalid object to validate; '
            "if you choose to ignore these errors, turn validation off with --validate=false",
            "is not a manifest",
        ),
        (
            'error: error validating "a.yaml": error validating data: [apiVersion not set, kind '
            "not set]; if you choose to ignore these errors, turn validation off with "
            "--validate=false",
            "is not a manifest",
        ),
        ("error: no objects passed to apply", "is not a manifest"),
    ],
)
def test_a_file_that_is_no_manifest_is_not_blamed_on_the_api_server(
    said: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> str:
        raise KubectlError(refusal(said), said)

    kubectl = Kubectl()
    monkeypatch.setattr(kubectl, "ask", fails)

    assert why.of_file(kubectl, "a.yaml") == 3

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"The file a.yaml {told}." in printed.err
    assert said in printed.err


def test_a_webhooks_no_is_not_taken_for_a_right_that_is_missing() -> None:
    said = 'widgets is forbidden: User "me" cannot create resource "widgets"'
    refused = client.of_file(said)

    assert refused
    assert "-edit" in refused.todo.en
    assert client.of_file(f'admission webhook "a" denied the request: {said}') is None


def test_what_the_api_server_says_of_a_manifest_is_not_blamed_on_the_file() -> None:
    for said in (
        'The Message "a" is invalid: spec.text: Too long',
        'Error from server (BadRequest): error when creating "a.yaml": strict decoding error',
        "error: the namespace from the provided object does not match the namespace a",
    ):
        assert client.of_file(said) is None
