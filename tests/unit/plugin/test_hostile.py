"""Whatever tenants write, kubectl gets none of it as an option, and the user a clear answer."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kopf_kit.kubectl import client
from kopf_kit.release import krew
from kubectl_message import __main__ as program
from tests.support.listener import listening
from tests.unit.plugin import fake_kubectl
from tests.unit.plugin.clusters import container, crd, healthy, look_alike
from tests.unit.plugin.fake_kubectl import Objects

HOSTILE = {
    "an option": "--server=https://127.0.0.1:9443",
    "a short option": "-A",
    "spaces": "a b --as=system:admin",
    "lines": "a\n--token=b\n\r\x85x",
    "an equals sign": "=a=b",
    "escapes": "\x1b[2J\x1b]0;a\x07\x9b31m\u202e",
    "commands": "a; $(touch /tmp/a) `b` | c",
    "long": "a" * 5000,
    "a path": "../../secrets/a",
}
Write = Callable[[Objects, str], None]


def argument(flag: str) -> Write:
    return lambda objects, value: container(objects["deployments"][0])["args"].append(flag + value)


def environment(name: str) -> Write:
    def write(objects: Objects, value: str) -> None:
        one = container(objects["deployments"][0])
        one["args"] = [arg for arg in one["args"] if arg[:11] not in ("--lease-nam", "--all-names")]
        one["env"].append({"name": name, "value": value})

    return write


def field(path: str) -> Write:
    """Return how to write a value to a field, such as `pods.0.metadata.name`."""

    def write(objects: Objects, value: str) -> None:
        *steps, last = path.split("/")
        place: Any = objects
        for step in steps:
            place = place[int(step)] if step.isdecimal() else place.setdefault(step, {})
        place[last] = value

    return write


def waiting(part: str) -> Write:
    """Return how to say in a Pod's status why it waits."""

    def write(objects: Objects, value: str) -> None:
        state = {"waiting": {"reason": "ImagePullBackOff", "message": "m", part: value}}
        status = objects["pods"][0]["status"]
        status["conditions"][0]["status"] = "False"
        status["containerStatuses"] = [{"name": "operator", "state": state}]

    return write


def failing(part: str) -> Write:
    """Return how to say in a Message's condition why it fails."""

    def write(objects: Objects, value: str) -> None:
        status = objects["messages"][0]["status"]
        status["phase"] = "Failed"
        status["conditions"][0].update({"status": "False", "reason": "Odd", part: value})

    return write


def starting(objects: Objects, value: str) -> None:
    failing("reason")(objects, "PodPending")
    event = {"metadata": {"name": "e"}, "message": value, "lastTimestamp": value}
    objects["events"].append(event)


def on_a_node(objects: Objects, value: str) -> None:
    objects["pods"][0]["status"]["conditions"][0]["status"] = "False"
    objects["pods"][0]["spec"] = {"nodeName": value}


def rolling(objects: Objects, value: str) -> None:
    """Write the name of a release while a rollout is stuck, when it is advised to roll back."""
    metadata = objects["deployments"][0]["metadata"]
    metadata["annotations"]["meta.helm.sh/release-name"] = value
    new = json.loads(json.dumps(objects["pods"][0]))
    new["metadata"].update(name="new", labels={"pod-template-hash": "new"})
    new["status"] = {"phase": "Pending"}
    objects["pods"].append(new)


def another(write: Write) -> Write:
    """Return how to write it into a second operator, which nothing of the cluster names."""

    def both(objects: Objects, value: str) -> None:
        objects["deployments"].insert(0, look_alike())
        write(objects, value)

    return both


LABELS = "deployments/0/spec/selector/matchLabels/"
#: What of a cluster a tenant can write, or that it is well to be prepared for, and what is said.
PLACES: dict[str, tuple[Write, str]] = {
    "--lease-name": (argument("--lease-name="), "its Lease has no valid name"),
    "MESSAGE_OPERATOR_LEASE_NAME": (
        environment("MESSAGE_OPERATOR_LEASE_NAME"),
        "its Lease has no valid name",
    ),
    "--lease-namespace": (argument("--lease-namespace="), "its Lease has no valid name"),
    "--namespace": (argument("--namespace="), "is in watchNamespaces but does not exist"),
    "WATCH_NAMESPACE": (environment("WATCH_NAMESPACE"), "is in watchNamespaces but does not exist"),
    "--namespace-selector": (argument("--namespace-selector="), "no operator serves"),
    "serviceAccountName": (
        field("deployments/0/spec/template/spec/serviceAccountName"),
        "is missing",
    ),
    "matchLabels": (field(f"{LABELS}a"), "no replica of the operator is ready"),
    "a label": (field("deployments/0/metadata/labels/app.kubernetes.io~1version"), "demo-message"),
    "the release": (rolling, "the Deployment's new Pod is not ready"),
    "the Deployment's name": (field("deployments/0/metadata/name"), "no operator is installed"),
    "its namespace": (field("deployments/0/metadata/namespace"), "no operator is installed"),
    "the Pod's name": (field("pods/0/metadata/name"), "no replica of the operator leads"),
    "the Pod's node": (on_a_node, "no replica of the operator is ready"),
    "the Pod's reason": (waiting("reason"), "no replica of the operator is ready"),
    "the Pod's message": (waiting("message"), "no replica of the operator is ready"),
    "the Lease's holder": (
        field("leases/0/spec/holderIdentity"),
        "no replica of the operator leads",
    ),
    "the Lease's time": (field("leases/0/spec/renewTime"), "leads"),
    "podName": (
        field("messages/0/status/podName"),
        "hello prints: its text, every 10 s, by Pod msg-hello.",
    ),
    "nodeName": (field("messages/0/status/nodeName"), "hello prints"),
    "phase": (field("messages/0/status/phase"), "hello does not print"),
    "reason": (failing("reason"), "hello does not print"),
    "message": (failing("message"), "hello does not print"),
    "the Message's text": (field("messages/0/spec/text"), "hello prints"),
    "an Event": (starting, "hello does not print"),
    "a namespace's name": (field("namespaces/1/metadata/name"), "hello prints"),
    "the CRD's version": (
        field("customresourcedefinitions/0/metadata/labels/app.kubernetes.io~1version"),
        "hello",
    ),
    "a look-alike's --lease-name": (another(argument("--lease-name=")), "ignored: tenant/"),
    "a look-alike's --namespace": (another(argument("--namespace=")), "ignored: tenant/"),
    "a look-alike's name": (another(field("deployments/0/metadata/name")), "hello prints"),
}
COMMANDS = (
    ["doctor"],
    ["why", "hello", "-n", "team"],
    ["logs", "hello", "-n", "team"],
    ["status", "-A"],
    ["status", "-A", "-o", "json"],
    ["support-bundle"],
)
#: What kubectl may get before `--`.
OPTION = re.compile(
    r"get|logs|create|version|config|view|--(all-namespaces|ignore-not-found|validate=false|minify)"
    r"|--(timestamps|previous|(tail|limit-bytes)=[0-9]+)"
    r"|--(output|filename|container|namespace|selector|field-selector)=.*",
    re.DOTALL,
)


class Recorded:
    """kubectl's process, which notes the command and answers at once."""

    commands: list[list[str]]
    objects: Objects

    def __init__(self, command: list[str], **_: Any) -> None:
        self.commands.append(command)
        self._command = command
        self.stderr: list[str] = []
        self.stdin = self.stdout = self
        self._sent = ""
        self._code = 0

    def write(self, text: str) -> None:
        self._sent += text

    def read(self) -> str:
        self._code, printed = fake_kubectl.answer(self.objects, self._command[1:], self._sent)
        return printed

    def wait(self) -> int:
        return self._code

    def close(self) -> None: ...
    def kill(self) -> None: ...
    def __enter__(self) -> "Recorded":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    class Here(Recorded):
        commands: list[list[str]] = []  # noqa: RUF012
        objects = healthy()

    def call(command: list[str]) -> int:
        Here.commands.append(command)
        return 0

    def visit(url: str) -> NoReturn:
        raise AssertionError(f"kubectl is sent to {url}")

    monkeypatch.chdir(tmp_path)  # the file of support-bundle is written here
    monkeypatch.setattr("kopf_kit.kubectl.client.subprocess.Popen", Here)
    monkeypatch.setattr("kopf_kit.kubectl.client.subprocess.call", call)
    monkeypatch.setattr(fake_kubectl, "visit", visit)
    return Here


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Run every command that looks at the cluster; return what they say."""
    told = ""
    for command in COMMANDS:
        code = program.main(command)
        printed = capsys.readouterr()
        assert code in (0, 1), (command, printed)
        told += printed.out + printed.err
    return told


def test_in_the_cluster_of_these_tests_all_is_well(
    recorded: type[Recorded], capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys)

    assert "All is well." in told
    assert "hello prints" in told
    assert any("logs" in command for command in recorded.commands)


def test_doctor_ends_with_1_where_a_check_fails(recorded: type[Recorded]) -> None:
    well = program.main(["doctor"])
    recorded.objects["deployments"].clear()

    assert (well, program.main(["doctor"])) == (0, 1)


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", PLACES)
def test_r1_what_a_tenant_writes_is_no_option_of_kubectl(
    place: str, value: str, recorded: type[Recorded], capsys: pytest.CaptureFixture[str]
) -> None:
    write, finding = PLACES[place]
    write(recorded.objects, value)

    told = said(capsys)

    for program_, *command in recorded.commands:
        options, names_ = command, []
        if "--" in command:
            end = command.index("--")
            options, names_ = command[:end], command[end + 1 :]
        assert program_ == "kubectl"
        assert all(OPTION.fullmatch(option) for option in options), command
        assert all(client.is_name(name) for name in ",".join(names_).split(",") if name), command
        assert not any(value in argument for argument in command), command
    assert finding in told
    assert all(character.isprintable() or character == "\n" for character in told)
    assert max(map(len, told.splitlines())) < 6000
    assert not re.search(r"`[^`]*(touch|--server|--token|--as=)[^`]*`", advice(told))


def advice(told: str) -> str:
    """Return the lines that say what to do."""
    return "\n".join(line for line in told.splitlines() if line.strip().startswith("Do "))


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Listen on loopback; return the port, and what is sent there."""
    with listening() as heard:
        yield heard


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run the packed plugin with a kubectl of the tests, which obeys options as kubectl does."""
    packed = tmp_path / krew.PROGRAM
    packed.write_bytes(krew.program())
    fake = tmp_path / "kubectl"
    fake.write_text(f"#!{sys.executable}\n" + Path(fake_kubectl.__file__).read_text())
    fake.chmod(0o755)

    def run(objects: Objects, *command: str) -> str:
        known = tmp_path / "objects.json"
        known.write_text(json.dumps(objects))
        done = subprocess.run(
            [sys.executable, packed, *command],
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "OBJECTS": str(known),
                "LANG": "C.UTF-8",
            },
            check=False,
        )
        return done.stdout + done.stderr

    return run


def test_the_kubectl_of_these_tests_sends_the_token_where_an_option_says(
    listener: tuple[int, list[bytes]], run: Callable[..., str]
) -> None:
    port, heard = listener

    run(healthy(), "doctor", f"--server=http://127.0.0.1:{port}")

    assert any(b"Bearer secret" in request for request in heard)


def test_r1_nothing_is_sent_where_a_tenant_says(
    listener: tuple[int, list[bytes]], run: Callable[..., str]
) -> None:
    port, heard = listener
    there = f"--server=http://127.0.0.1:{port}"
    objects = healthy()
    objects["deployments"].append(look_alike(f"--lease-name={there}"))
    objects["messages"][0]["status"]["podName"] = there

    doctor = run(objects, "doctor")
    why = run(objects, "why", "hello", "-n", "team")
    logs = run(objects, "logs", "hello", "-n", "team")

    assert heard == []
    assert "All is well." in doctor
    assert "hello prints: its text, every 10 s, by Pod msg-hello." in why
    assert "kubectl has failed" not in logs


def test_r1_nothing_is_sent_where_the_operator_itself_says(
    listener: tuple[int, list[bytes]], run: Callable[..., str]
) -> None:
    port, heard = listener
    objects = healthy()
    container(objects["deployments"][0])["args"].append(
        f"--lease-name=--server=http://127.0.0.1:{port}"
    )

    doctor = run(objects, "doctor")

    assert heard == []
    assert "the operator cannot elect a leader: its Lease has no valid name" in doctor
    assert crd()["metadata"]["name"] in doctor


@pytest.mark.parametrize("on_terminal", [True, False])
def test_t6_a_tenant_s_escapes_reach_no_terminal(tmp_path: Path, on_terminal: bool) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\nprintf 'a\\033]0;b\\007\\rc\\n안녕'\n")
    (tmp_path / "kubectl").chmod(0o755)
    ours, theirs = os.openpty() if on_terminal else os.pipe()
    program = "from kopf_kit.kubectl.client import Kubectl; Kubectl().logs('hello')"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program], env=environment, stdout=theirs, check=True
    )

    told = os.read(ours, 1000).decode()
    os.close(ours)
    os.close(theirs)

    assert told == ("a ]0;b  c\r\n안녕\r\n" if on_terminal else "a\x1b]0;b\x07\rc\n안녕")
