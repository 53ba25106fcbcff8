"""`kopf-kit rights record`: an audit log becomes the least rules, and differences are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from kit.called import called
from kopf_kit.cli import rights
from kopf_kit.cli.rights import Request, Rights, command
from kopf_kit.project import documents

OPERATOR = "system:serviceaccount:notes:operator"
PODS: dict[str, Any] = {"resource": "pods", "namespace": "a", "apiVersion": "v1"}
LACKS = "role.yaml does not give it, and the operator asked for"
NAMED = {"kind": "ClusterRole", "metadata": {"name": "notes"}}
UNUSED = "role.yaml gives it, and nothing asked for it"
NOTES: dict[str, Any] = {"resource": "notes", "apiGroup": "example.dev", "apiVersion": "v1"}


def event(verb: str, user: str = OPERATOR, code: int = 200, **where: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": where,
        "requestURI": "/…",
        "responseStatus": {"code": code},
    }


#: A day of an operator, and what others asked meanwhile.
EVENTS = [
    event("list", **NOTES),
    event("watch", **NOTES),
    event("create", code=201, name="note-x", **PODS),
    event("create", code=409, **{**PODS, "namespace": "b"}),
    event("patch", name="note-x", **PODS),
    event("patch", name="note-y", **PODS),
    event("get", name="note-x", subresource="log", **PODS),
    event("patch", name="x", subresource="status", **NOTES),
    event("patch", name="settings", code=201, resource="configmaps", namespace="a"),
    event("update", name="leader", code=201, resource="leases", apiGroup="a.b"),
    event("get", name="a", resource="namespaces", namespace="a", apiVersion="v1"),
    {**event("get"), "objectRef": None, "requestURI": "/apis/example.dev/v1?timeout=32s"},
    {**event("get"), "objectRef": None, "requestURI": "/metrics?name=a"},
    event("list", resource="nodes"),
    event("create", resource="selfsubjectaccessreviews", apiGroup="authorization.k8s.io"),
]
RULES = """\
rules:
  # get /metrics
  - nonResourceURLs: [/metrics]
    verbs: [get]
  # create /api/namespaces/*/configmaps/settings
  # patch /api/namespaces/*/configmaps/settings
  - apiGroups: ['']
    resources: [configmaps]
    verbs: [create, patch]
  # get /api/v1/namespaces/a
  - apiGroups: ['']
    resources: [namespaces]
    verbs: [get]
  # list /api/nodes
  - apiGroups: ['']
    resources: [nodes]
    verbs: [list]
  # create /api/v1/namespaces/*/pods
  # patch /api/v1/namespaces/*/pods/note-x
  - apiGroups: ['']
    resources: [pods]
    verbs: [create, patch]
  # get /api/v1/namespaces/*/pods/note-x/log
  - apiGroups: ['']
    resources: [pods/log]
    verbs: [get]
  # create /apis/a.b/leases/leader
  # update /apis/a.b/leases/leader
  - apiGroups: [a.b]
    resources: [leases]
    verbs: [create, update]
  # list /apis/example.dev/v1/notes
  # watch /apis/example.dev/v1/notes
  - apiGroups: [example.dev]
    resources: [notes]
    verbs: [list, watch]
  # patch /apis/example.dev/v1/notes/x/status
  - apiGroups: [example.dev]
    resources: [notes/status]
    verbs: [patch]
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "audit.log"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in EVENTS) + '{"still": "written')
    return file


def test_the_least_rules_have_a_request_for_each_verb_and_are_a_role(log: Path) -> None:
    used = rights.of_logs([log])
    text = rights.least_role("notes", used)

    assert text[text.index("rules:") :] == RULES
    role = documents.load(text)
    assert role["kind"] == "ClusterRole"
    assert rights.beyond(used, role["rules"]) == {}


def test_a_role_is_told_what_it_lacks_and_what_it_has_for_nothing(log: Path) -> None:
    rules = documents.load(RULES)["rules"]
    used = rights.of_logs([log])
    assert [*rights.differences(used, Rights("role.yaml", rules))] == []
    # Of an object to be created, RBAC knows no name.
    rules[4] |= {"verbs": ["create", "delete"], "resourceNames": ["note-x"]}
    rules[0]["nonResourceURLs"] += ["/other"]

    assert [*rights.differences(used, Rights("role.yaml", rules))] == [
        f"missing: the right to create pods: {LACKS} /api/v1/namespaces/*/pods",
        f"missing: the right to patch pods: {LACKS} /api/v1/namespaces/*/pods/note-x",
        f"unused: the right to get /other: {UNUSED}",
        f"unused: the right to create, delete pods named note-x: {UNUSED}",
    ]


@pytest.mark.parametrize(
    ("rule", "request_", "allowed"),
    [
        (("*", "*", "*"), ("a.b", "c/d", "get"), True),
        (("", "pods", "get"), ("", "pods", "get"), True),
        (("", "pods", "*"), ("", "pods/log", "get"), False),
        (("", "*/log", "get"), ("", "pods/log", "get"), True),
        (("", "pods", "get"), ("a", "pods", "get"), False),
        (("", "*", "get"), ("", "/ab", "get"), False),
    ],
)
def test_a_rule_allows_what_rbac_lets_it(
    rule: tuple[str, str, str], request_: tuple[str, str, str], *, allowed: bool
) -> None:
    group, resource, verb = rule
    made = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
    assert rights.allows(made, Request(*request_)) is allowed


def test_a_path_is_allowed_by_itself_or_by_its_beginning() -> None:
    for url, allowed in (("/a*", True), ("/ab", True), ("/a", False)):
        rule = {"nonResourceURLs": [url], "verbs": ["get"]}
        assert rights.allows(rule, Request("", "/ab", "get")) is allowed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("record",), "there is nothing to run: use for example `kopf-kit rights record --"),
        (("record", "--", "false"), "`false` failed (1), so requests may be missing"),
        (("record", "--", "true"), "`true` started no operator with the fixtures of kopf_kit"),
        (("record", "--", "nosuchprogram"), "cannot run nosuchprogram: No such file"),
    ],
)
def test_a_wrong_use_is_told_in_a_sentence_and_writes_nothing(
    log: Path, words: tuple[str, ...], sentence: str
) -> None:
    code, said = called(command, log.parent, *words)

    assert code == 1
    assert sentence in said
    assert not (log.parent / "rights.yaml").exists()
