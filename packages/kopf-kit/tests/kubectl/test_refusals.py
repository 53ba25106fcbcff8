"""What kubectl prints when it fails is recognized; the lines are those of kubectl 1.36."""

import pytest

from kopf_kit.kubectl import subject
from kopf_kit.kubectl.client import refusal
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
        ("error: unknown flag: --validate", "old"),
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
