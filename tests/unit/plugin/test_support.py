"""`support-bundle` collects what a maintainer needs, and nothing that is nobody's business."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.kubectl import client, subject
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.support import HIDDEN, Redaction
from kubectl_message import __main__ as program
from tests.support.plugin import support_bundle
from tests.unit.plugin import fake_kubectl
from tests.unit.plugin.clusters import container, crd, healthy
from tests.unit.plugin.fake_kubectl import Objects

TEXT = 'my bank says "안녕", and more'
LOG = f"spec.text: Invalid value: {json.dumps(TEXT)}: no\nInvalid: {TEXT[:12]}…\nall else is well\n"
OPERATOR = "operators/operators/demo-message-operator"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What kubectl is asked; it answers from the objects of a cluster with a broken operator."""
    objects, asked = broken(), []

    def ask(_: Kubectl, *arguments: str, send: Any = None) -> str:
        command = [*arguments]
        asked.append(command)
        if command[0] == "logs":
            return LOG
        if "nodes" in command:
            raise KubectlError(client.refusal("nodes is forbidden"), "nodes is forbidden")
        sent = "" if send is None else json.dumps(send)
        return fake_kubectl.answer(objects, [*command], sent)[1]

    monkeypatch.setattr(client.Kubectl, "ask", ask)
    return asked


def broken() -> Objects:
    objects = healthy()
    message = objects["messages"][0]
    message["spec"]["text"] = TEXT
    last = "kubectl.kubernetes.io/last-applied-configuration"
    message["metadata"]["annotations"] = {last: json.dumps(message["spec"]), "team": "red"}
    message["status"]["conditions"][0]["message"] = f'the text "{TEXT}" is refused'
    operator, printing = objects["pods"]
    operator["status"]["containerStatuses"] = [{"name": "operator", "restartCount": 3}]
    printing["spec"] = {"containers": [{"env": [{"name": "TEXT", "value": TEXT}]}]}
    variables = [{"name": "HTTPS_PROXY", "value": "https://me:secret@proxy"}]
    container(objects["deployments"][0])["env"] += variables
    objects["secrets"] = [{"metadata": {"name": "token"}, "data": {"password": "aGVsbG8="}}]
    described = {"openAPIV3Schema": {"properties": {"text": {"type": "string"}}}}
    objects["customresourcedefinitions"] = [{**crd("operators"), "status": described}]
    return objects


def test_it_has_the_operator_its_logs_and_the_messages_but_neither_secrets_nor_texts(
    asked: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "support.tar.gz"

    code = program.main(["support-bundle", "-f", str(file)])

    files = support_bundle(file)
    assert code == 0
    assert f"{file} is written." in capsys.readouterr().out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {
        "versions.json",
        "messages.json",
        "pods.json",
        "events.json",
        "crds/messages.json",
        "doctor.txt",
        "missing.txt",
        f"{OPERATOR}/deployment.json",
        f"{OPERATOR}/pods.json",
        f"{OPERATOR}/lease.json",
        f"{OPERATOR}/events.json",
        f"{OPERATOR}/logs/operator-0.operator.log",
        f"{OPERATOR}/logs/operator-0.operator.previous.log",
    } <= files.keys()
    assert not any(re.search(r"\bsecrets?\b", word) for command in asked for word in command)
    everything = "".join(files.values())
    for private in (TEXT, TEXT[:12], "me:secret", "aGVsbG8="):
        assert private not in everything
    [message] = json.loads(files["messages.json"])
    assert message["spec"] == {"text": HIDDEN, "intervalSeconds": 10}
    assert message["metadata"]["annotations"] == {"team": HIDDEN}
    assert message["status"]["conditions"][0]["message"] == f'the text "{HIDDEN}" is refused'
    assert files[f"{OPERATOR}/logs/operator-0.operator.log"].endswith("…\nall else is well\n")
    assert "--message-image=" in files[f"{OPERATOR}/deployment.json"]
    assert json.loads(files["crds/messages.json"])["status"]["openAPIV3Schema"]["properties"][
        "text"
    ]
    assert "Operator" in files["doctor.txt"]


def test_what_may_not_be_read_is_named_and_the_rest_is_collected(
    asked: list[list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Kubectl.ask

    def ask(self: Kubectl, *arguments: str, send: Any = None) -> str:
        if "--all-namespaces" in arguments:
            said = "pods is forbidden: User cannot list"
            raise KubectlError(client.refusal(said), said)
        return whole(self, *arguments, send=send)

    monkeypatch.setattr(Kubectl, "ask", ask)
    file = tmp_path / "support.tar.gz"

    code = program.main(["support-bundle", "-f", str(file), "-n", "team"])

    files = support_bundle(file)
    assert code == 0
    assert "What could not be read: " in capsys.readouterr().out
    assert "the operators: pods is forbidden: User cannot list\n" in files["missing.txt"]
    assert [raw["metadata"]["name"] for raw in json.loads(files["messages.json"])] == ["hello"]


@pytest.mark.usefixtures("asked")
def test_a_file_that_exists_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "thesis.tar.gz"
    file.write_text("ten years of work")

    assert program.main(["support-bundle", "-f", str(file)]) == 3

    assert file.read_text() == "ten years of work"
    assert f"{file} cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told", "hidden"),
    [
        ("a secret", "it is 'a secret'!", f"it is '{HIDDEN}'!"),
        ("two\nlines", '{"text": "two\\nlines"}', f'{{"text": "{HIDDEN}"}}'),
        ("안녕하세요, 여러분", '"\\uc548\\ub155\\ud558\\uc138\\uc694…"', f'"{HIDDEN}…"'),
        ("a secret", "a secretary", f"{HIDDEN}ary"),
        ("the", "the Pod", "the Pod"),
    ],
)
def test_texts_are_hidden_as_they_are_quoted(text: str, told: str, hidden: str) -> None:
    message = {"metadata": {"name": "hello"}, "spec": {"text": text}}
    (kind,) = subject.current().kinds

    assert Redaction([(kind, [message])]).text(told) == hidden
