"""The plugin of an operator without a package of its own, such as etcd's: `kopf_kit.kubectl`."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.kubectl import __main__ as program
from kopf_kit.kubectl import checks, client, subject
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.installation import Operator
from kopf_kit.kubectl.subject import Kind, Right, Subject
from kopf_kit.kubectl.support import HIDDEN
from kopf_kit.kubectl.text import Text
from kopf_kit.release.krew import shown
from tests.support.plugin import support_bundle
from tests.unit.plugin import fake_kubectl
from tests.unit.plugin.fake_kubectl import Objects
from tests.unit.plugin.operators import Raw, ago, lease, pod

GROUP = "etcd.example.com"
CLUSTERS = Kind(
    "EtcdCluster",
    "EtcdClusters",
    f"etcdclusters.{GROUP}",
    "v1alpha1",
    True,
    {"version": True, "pod": {"secrets": True}},
)
BACKUPS = Kind("EtcdBackup", "EtcdBackups", f"etcdbackups.{GROUP}", "v1alpha1", True, {})
ETCD = Subject(
    name="etcd-operator",
    command="etcd",
    version="0.1.0",
    home="https://example.com/etcd",
    runbooks=Text("https://example.com/runbooks.md", "https://example.com/runbooks.md"),
    alerts=("EtcdOperatorDown", "EtcdOperatorNoLeader", "EtcdOperatorQueueStuck"),
    variables="ETCD_OPERATOR_",
    signs=("ETCD_OPERATOR_",),
    kinds=(CLUSTERS, BACKUPS),
    rights=(
        Right(GROUP, "etcdclusters", "list"),
        Right(GROUP, "etcdclusters/status", "patch"),
        Right("", "pods", "create"),
        Right("", "configmaps", "create"),
        Right("", "secrets", "create"),
        Right("", "pods/eviction", "create"),
        Right("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    tells=True,
)
#: What a tenant writes where nothing checks it: it steers a terminal, and looks like an option.
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e--server=https://evil.invalid"
PASSWORD = "correct horse battery staple"


def a(kind: str, name: str, *, ready: str = "True", **status: Any) -> Raw:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "NoQuorum",
        "message": "2 of 3 are down",
        "lastTransitionTime": ago(180),
        "observedGeneration": 1,
    }
    meta = {"name": name, "namespace": "team", "generation": 1, "creationTimestamp": ago(600)}
    status = {"conditions": [condition, *status.pop("others", ())], **status}
    return {"kind": kind, "metadata": {**meta, "uid": name}, "spec": {}, "status": status}


def deployment() -> Raw:
    meta = {"name": "etcd-operator", "namespace": "operators", "labels": {}}
    container = {
        "name": "operator",
        "image": "registry.example/etcd-operator:0.1.0",
        "args": ["--all-namespaces", "--leader-elect", "--lease-name=etcd-operator"],
        "env": [
            {"name": "ETCD_OPERATOR_LOG_LEVEL", "value": "info"},
            {"name": "HTTPS_PROXY", "value": "http://me:secret@proxy"},
        ],
    }
    template = {
        "metadata": {},
        "spec": {"serviceAccountName": "etcd", "containers": [container]},
    }
    selector = {"matchLabels": {"app": "etcd-operator"}}
    return {"metadata": meta, "spec": {"replicas": 1, "selector": selector, "template": template}}


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Objects]:
    """The objects of a cluster with etcd's operator, all of it well."""
    running, held = pod("etcd-operator-0"), lease("etcd-operator-0")
    running["metadata"]["namespace"] = "operators"
    held["metadata"] = {"name": "etcd-operator", "namespace": "operators"}
    account = {"name": "etcd", "namespace": "operators", "creationTimestamp": ago(7200)}
    versions = [{"name": "v1alpha1", "served": True}]
    objects: Objects = {
        "deployments": [deployment()],
        "pods": [running],
        "leases": [held],
        "serviceaccounts": [{"metadata": account}],
        "etcdclusters": [a("EtcdCluster", "main")],
        "etcdbackups": [],
        "events": [],
        "namespaces": [{"metadata": {"name": "team"}}],
        "customresourcedefinitions": [
            {"metadata": {"name": kind.resource}, "spec": {"versions": versions}}
            for kind in ETCD.kinds
        ],
        "granted": [["system:serviceaccount:operators:etcd", ""]],
    }

    def ask(_: Kubectl, *arguments: str, send: Any = None) -> str:
        if arguments[0] == "logs":
            return f"{HOSTILE}\nBearer abc.def\nhttps://me:secret@host\n{PASSWORD[:20]}…\n"
        code, printed = fake_kubectl.answer(objects, [*arguments], json.dumps(send))
        assert code == 0
        return printed

    former = subject.current()
    subject.use(ETCD)
    monkeypatch.setattr(Kubectl, "ask", ask)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANG", "C.UTF-8")
    yield objects
    subject.use(former)


def test_all_is_well(objects: Objects, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [program.main(command) for command in (["doctor"], ["why", "main"], ["status", "-A"])]

    told = capsys.readouterr().out
    assert codes == [0, 0, 0], told
    assert "✓ EtcdClusters" in told
    assert "1: 1 ready" in told
    assert "All is well." in told
    assert "EtcdCluster main: it is ready." in told
    assert "etcdcluster/main   True    3m" in told


def test_why_tells_the_reason_the_conditions_and_the_last_events(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [{"type": "Available", "status": "False", "reason": "NoQuorum"}]
    objects["etcdclusters"] = [a("EtcdCluster", "main", ready="False", others=others)]
    objects["events"] = [
        {
            "metadata": {"namespace": "team"},
            "involvedObject": {"name": "main", "uid": uid},
            "type": "Warning",
            "reason": reason,
            "message": "etcd-0 is gone",
            "lastTimestamp": ago(seconds),
        }
        for reason, seconds, uid in (("Old", 900, "main"), ("New", 60, "main"), ("Other", 5, "x"))
    ]

    code = program.main(["why", "etcdcluster/main", "-n", "team"])

    told = capsys.readouterr().out
    assert code == 1
    assert told.startswith("EtcdCluster main: it is not ready (NoQuorum).\n")
    assert "NoQuorum, for 3m" in told
    assert "2 of 3 are down" in told
    assert "Available=False (NoQuorum)" in told
    assert re.findall(r"Warning  (\w+)  etcd-0 is gone", told) == ["New", "Old"]


def test_an_object_that_nobody_looks_at_is_told_with_what_is_wrong_with_the_operator(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    objects["etcdclusters"][0]["metadata"]["generation"] = 2
    objects["deployments"][0]["spec"]["replicas"] = 0

    assert program.main(["why", "main"]) == 1
    why = capsys.readouterr().out
    assert program.main(["doctor"]) == 1
    doctor = capsys.readouterr().out

    assert "this is of an earlier version of it; the operator is scaled to zero" in why
    assert "operators/etcd-operator" in why
    assert "runbooks.md#etcdoperatordown" in why
    assert "1 were not looked at: team/main" in doctor


def test_who_may_not_see_the_operator_is_told_what_the_object_says(
    objects: Objects, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects["etcdclusters"] = [a("EtcdCluster", "main", ready="False")]
    whole = Kubectl.ask

    def ask(self: Kubectl, *arguments: str, send: Any = None) -> str:
        if "--all-namespaces" in arguments or "events" in arguments:
            raise KubectlError(client.refusal("(Forbidden)"), "Error (Forbidden)")
        return whole(self, *arguments, send=send)

    monkeypatch.setattr(Kubectl, "ask", ask)

    assert program.main(["why", "main", "-n", "team"]) == 1
    assert "it is not ready (NoQuorum)" in capsys.readouterr().out
    assert program.main(["status", "-A"]) == 3
    assert "etcdclusters.etcd.example.com-view" in capsys.readouterr().err


def test_the_same_name_in_two_kinds_and_a_name_that_is_not_there(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    objects["etcdbackups"] = [a("EtcdBackup", "main", ready="False")]

    assert program.main(["why", "main"]) == 1
    told = capsys.readouterr().out
    assert "EtcdCluster main: it is ready." in told
    assert "EtcdBackup main: it is not ready" in told
    assert program.main(["why", "etcdclusters/man"]) == 3
    assert "Did you mean main?" in capsys.readouterr().err
    assert program.main(["why", "pod/main"]) == 3
    assert "etcdcluster, etcdbackup" in capsys.readouterr().err


def test_each_change_of_each_kind_is_followed(
    objects: Objects, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, backup = a("EtcdCluster", "main"), a("EtcdBackup", "daily", ready="False")
    seen = threading.Event()

    def watch(_: Kubectl, resource: str, *, everywhere: bool = False) -> Iterator[Raw]:
        assert everywhere
        if resource == CLUSTERS.resource:
            yield {"type": "ADDED", "object": cluster}
            yield {"type": "MODIFIED", "object": cluster}
            yield {"type": "DELETED", "object": cluster}
            seen.set()
            threading.Event().wait()
        yield {"type": "ADDED", "object": backup}
        assert seen.wait(10)
        raise KubectlError(client.refusal("(Forbidden)"), "Error (Forbidden)")

    monkeypatch.setattr(Kubectl, "watch", watch)

    assert program.main(["status", "-w", "-A"]) == 3

    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if "etcdcluster" in line] == [
        "team/etcdcluster/main  True  ",
        "team/etcdcluster/main  True  it is being deleted",
    ]
    assert "team/etcdbackup/daily  False  NoQuorum: 2 of 3 are down" in lines


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ("", 0, "a.yaml: the API server accepts it."),
        (
            'The EtcdCluster "a" is invalid: spec.size: Invalid value: 8',
            1,
            "a.yaml: the API server refuses it.",
        ),
        (
            "etcdclusters \"a\" is forbidden: ValidatingAdmissionPolicy 'odd' denied request",
            1,
            "a.yaml: an admission webhook or policy refuses it.",
        ),
        (
            'Error from server (Forbidden): admission webhook "a" denied the request: etcdclusters '
            'is forbidden: User "me" cannot own it',
            1,
            "a.yaml: an admission webhook or policy refuses it.",
        ),
        (
            'Error from server (Forbidden): etcdclusters.etcd.example.com is forbidden: User "me" '
            'cannot create resource "etcdclusters"',
            3,
            "kubectl etcd: You may not create what is in a.yaml.",
        ),
    ],
)
def test_why_says_what_the_api_server_says_of_a_file(
    said: str,
    code: int,
    told: str,
    objects: Objects,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(_: Kubectl, *arguments: str, send: Any = None) -> str:
        assert arguments == ("apply", "--dry-run=server", "--filename=a.yaml")
        if said:
            raise KubectlError(client.refusal(said), said)
        return ""

    monkeypatch.setattr(Kubectl, "ask", ask)

    assert program.main(["why", "-f", "a.yaml"]) == code

    printed = "".join(capsys.readouterr())
    assert printed.splitlines()[0] == told
    assert said in " ".join(printed.split())
    assert ("the ClusterRole etcdclusters.etcd.example.com-edit" in printed) == (code == 3)
    assert "-view" not in printed


def test_the_bundle_has_what_the_operator_made_but_no_secret_and_no_free_text(
    objects: Objects, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster = objects["etcdclusters"][0]
    cluster["spec"] = {
        "version": "3.6.1",
        "size": 3,
        "note": PASSWORD,
        "pod": {"secrets": ["pull"], "a": "b"},
    }
    cluster["status"]["conditions"][0]["message"] = f"refused: {PASSWORD}"
    cluster["metadata"]["annotations"] = {"mine": PASSWORD, "k8s.io/x": "kept"}
    objects["pods"][0]["status"]["containerStatuses"] = [{"name": "operator", "restartCount": 0}]
    objects["configmaps"] = [{"metadata": {"name": "conf"}, "data": {"etcd.conf": "s3cr3t"}}]
    objects["secrets"] = [{"metadata": {"name": "root"}, "data": {"password": "aGVsbG8="}}]
    objects["events"] = [
        {"metadata": {"name": "e"}, "involvedObject": {"name": "main"}, "message": HOSTILE},
    ]

    code = program.main(["support-bundle", "-f", str(tmp_path / "it.tar.gz")])

    files = support_bundle(tmp_path / "it.tar.gz")
    everything = "".join(files.values())
    assert code == 0
    assert {
        "etcdclusters.json",
        "etcdbackups.json",
        "crds/etcdclusters.json",
        "pods.json",
        "configmaps.json",
        "events.json",
        "doctor.txt",
        "missing.txt",
        "operators/operators/etcd-operator/logs/etcd-operator-0.operator.log",
    } <= files.keys()
    assert not {"secrets.json", "pods/eviction.json", "subjectaccessreviews.json"} & files.keys()
    for private in (PASSWORD, PASSWORD[:20], "me:secret", "abc.def", "s3cr3t", "aGVsbG8="):
        assert private not in everything
    [kept] = json.loads(files["etcdclusters.json"])
    assert kept["spec"] == {
        "version": "3.6.1",
        "size": 3,
        "note": HIDDEN,
        "pod": {"secrets": ["pull"], "a": HIDDEN},
    }
    assert kept["metadata"]["annotations"] == {"mine": HIDDEN, "k8s.io/x": "kept"}
    assert kept["status"]["conditions"][0]["message"] == f"refused: {HIDDEN}"
    assert "ETCD_OPERATOR_LOG_LEVEL" in everything
    assert all(character.isprintable() or character == "\n" for character in everything)
    assert "EtcdClusters" in capsys.readouterr().out


@pytest.mark.parametrize(
    "write",
    [
        lambda cluster: cluster["status"]["conditions"][0].update(reason=HOSTILE),
        lambda cluster: cluster["status"]["conditions"][0].update(message=HOSTILE),
        lambda cluster: cluster["status"]["conditions"].append({"type": HOSTILE, "status": "x"}),
        lambda cluster: cluster["metadata"].update(
            deletionTimestamp=ago(5), finalizers=[f"a/{HOSTILE}"]
        ),
    ],
    ids=["reason", "message", "condition", "finalizer"],
)
def test_what_a_tenant_writes_does_not_steer_the_terminal(
    write: Any, objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    objects["etcdclusters"] = [a("EtcdCluster", "main", ready="False")]
    write(objects["etcdclusters"][0])
    objects["events"] = [
        {
            "metadata": {},
            "involvedObject": {"name": "main"},
            "type": "Warning",
            "reason": HOSTILE,
            "message": HOSTILE,
            "lastTimestamp": HOSTILE,
        },
    ]

    for command in (["why", "main"], ["status", "-A"], ["status", "-o", "json"], ["doctor"]):
        assert program.main(command) in (0, 1)
    told = capsys.readouterr().out

    assert all(character.isprintable() or character == "\n" for character in told)


def test_an_operator_that_tells_no_ready_condition_is_not_blamed(
    objects: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    subject.use(ETCD._replace(tells=False))
    objects["etcdclusters"][0]["status"] = {}
    mine = {"name": "etcd-0", "namespace": "team", "ownerReferences": [{"uid": "main"}]}
    objects["pods"].append({"metadata": mine})
    other = {"name": "web-0", "namespace": "team", "ownerReferences": [{"uid": "other"}]}
    objects["pods"].append({"metadata": other})

    assert program.main(["why", "main"]) == 0
    assert "it has no Ready condition" in capsys.readouterr().out
    assert program.main(["doctor"]) == 0
    assert program.main(["support-bundle", "-f", "it.tar.gz"]) == 0
    pods = json.loads(support_bundle(Path("it.tar.gz"))["pods.json"])
    assert [raw["metadata"]["name"] for raw in pods] == ["etcd-0"]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "string"}, None),
        ({"type": "string", "pattern": "^[a-z]+$"}, True),
        ({"type": "string", "enum": ["a"]}, True),
        ({"type": "string", "format": "date-time"}, True),
        ({"type": "string", "format": "password"}, None),
        ({"type": "array", "items": {"enum": ["a"]}}, True),
        ({"type": "object", "additionalProperties": {"pattern": "a"}}, {"*": True}),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, None),
        ({"properties": {"a": {"type": "string"}, "b": {"pattern": "b"}}}, {"b": True}),
    ],
)
def test_a_text_is_shown_only_if_its_schema_says_what_it_may_be(schema: Raw, found: Any) -> None:
    assert shown(schema) == found


def test_the_rights_that_are_asked_for_are_those_of_the_operator(objects: Objects) -> None:
    objects["granted"] = []
    operator = deployment()
    lacking = checks.missing(Kubectl(), Operator(operator, [], None), ["team"])

    assert "patch etcdclusters/status (team)" in lacking
