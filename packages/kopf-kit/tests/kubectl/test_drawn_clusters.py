"""Whatever tenants wrote and whatever is broken, the plugin answers, tells no secret and trusts no
look-alike. Each case is a cluster in which all is well with some things changed. SEED repeats it.
"""

import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kopf_kit.kubectl import __main__ as program
from kopf_kit.kubectl import client, subject, support
from kubectl.clusters import (
    ACCOUNT,
    HOME,
    NAME,
    SUBJECT,
    TEAM,
    TENANT,
    Objects,
    Raw,
    ago,
    answer,
    container,
    deployment,
    healthy,
    owned,
    pod,
)

SEED = os.environ.get("SEED") or "67"  # each night draws others
#: What a tenant writes where nothing checks it.
HOSTILE = (
    "--server=https://127.0.0.1:9443",
    "a b --as=system:admin",
    "a\n--token=b\n\r\x85x",
    "=a=b",
    "\x1b[2J\x1b]0;a\x07\x9b31m\u202e",
    "a; $(touch /tmp/a) `b` | c",
    "../../secrets/a",
    "b" * 5000,
)
#: What users and administrators keep for themselves.
TEXT = 'my bank says "안녕", and the password is swordfish'
PRIVATE = (TEXT, TEXT[:20], "hunter2", "aHVudGVyMg", "abc.def", "s3cr3t")
LOG = f"{json.dumps(TEXT)}\nInvalid: {TEXT[:20]}…\nBearer abc.def\nhttps://me:hunter2@host\nfine\n"
#: What kubectl may get before `--`.
OPTION = re.compile(
    r"get|logs|create|version|config|view|--(all-namespaces|ignore-not-found|validate=false|minify)"
    r"|--(timestamps|previous|(tail|limit-bytes)=[0-9]+)"
    r"|--(output|filename|container|namespace|selector|field-selector)=.*",
    re.DOTALL,
)
COMMANDS = (
    ["doctor"],
    ["why", "main", "-n", TEAM],
    ["status", "-A"],
    ["support-bundle", "-f", "it.tar.gz"],
)
FAKE = f"{TENANT}/{NAME}"
Change = Callable[[Objects, random.Random, str], None]


class Kubectl:
    """kubectl's process, which notes the command and answers at once."""

    commands: list[list[str]]
    objects: Objects
    refused: str
    questions = 0

    def __init__(self, command: list[str], **_: Any) -> None:
        self.commands.append(command)
        self._command = command
        refused = self.refused in [word.partition(".")[0] for word in command]
        self.stderr = ["Error from server (Forbidden): you may not\n"] * refused
        self.stdin = self.stdout = self
        self._sent, self._code = "", 0

    def write(self, text: str) -> None:
        self._sent += text

    def read(self) -> str:
        if self.stderr:
            self._code = 1
            return ""
        type(self).questions += self._sent.count('"SubjectAccessReview"')
        if "logs" in self._command:
            return LOG
        self._code, printed = answer(self.objects, self._command[1:], self._sent)
        return printed

    def wait(self) -> int:
        return self._code

    def close(self) -> None: ...
    def kill(self) -> None: ...
    def __enter__(self) -> "Kubectl":
        return self

    def __exit__(self, *_: object) -> None: ...


def field(path: str) -> Change:
    """Return how to write a text to a field, such as `pods/0/metadata/name`."""

    def write(objects: Objects, _: random.Random, value: str) -> None:
        *steps, last = path.split("/")
        place: Any = objects
        for step in steps:
            place = place[int(step)] if step.isdecimal() else place.setdefault(step, {})
        place[last] = value

    return write


def argument(flag: str) -> Change:
    return lambda objects, _, value: container(objects["deployments"][0])["args"].append(
        flag + value
    )


def variable(name: str) -> Change:
    return lambda objects, _, value: container(objects["deployments"][0])["env"].append(
        {"name": name, "value": value}
    )


def waiting(objects: Objects, rng: random.Random, value: str) -> None:
    """Let the operator's Pod wait, for a reason that is known or not."""
    reason = rng.choice([name for entry in SUBJECT.advice.pods for name in entry.of] + [value])
    state = {"waiting": {"reason": reason, "message": value}}
    containers = [{"name": "operator", "state": state}]
    objects["pods"][0] = pod("operator-0", ready=False, containerStatuses=containers)
    objects["pods"][0]["spec"]["nodeName"] = rng.choice(["node-1", value])


def failing(objects: Objects, rng: random.Random, value: str) -> None:
    """Let an object fail, for a reason that is known or not."""
    reason = rng.choice([name for entry in SUBJECT.advice.reasons for name in entry.of] + [value])
    ready = rng.choice(["False", "Unknown", value])
    objects["widgets"][0] = owned("Widget", "main", ready=ready, reason=reason, message=value)
    others = {"type": value, "status": value, "reason": value}
    objects["widgets"][0]["status"]["conditions"].append(others)


def event(objects: Objects, _: random.Random, value: str) -> None:
    event = {"message": value, "reason": value, "type": value, "lastTimestamp": value}
    about = {"name": "main", "namespace": TEAM, "uid": "main"}
    objects["events"].append({"metadata": {"name": "e"}, "involvedObject": about, **event})


def deleting(objects: Objects, _: random.Random, value: str) -> None:
    objects["widgets"][0]["metadata"].update(deletionTimestamp=ago(5), finalizers=[value])


def rolling(objects: Objects, _: random.Random, value: str) -> None:
    """Let a rollout wait, and write the name of the release, to which it is advised to go back."""
    objects["deployments"][0]["metadata"]["annotations"]["meta.helm.sh/release-name"] = value
    new = pod("new", ready=False, phase="Pending")
    new["metadata"]["labels"] = {"pod-template-hash": "new"}
    objects["pods"].append(new)


def gone(objects: Objects, rng: random.Random, _: str) -> None:
    objects[rng.choice(["pods", "leases", "serviceaccounts", "nodes"])].clear()


def private(objects: Objects, rng: random.Random, _: str) -> None:
    """Have a user's text where users write, and quoted where operators write."""
    widget = objects["widgets"][0]
    widget["spec"] = {"version": "3.6", "note": TEXT, "pod": {"secrets": ["pull"], "a": TEXT}}
    widget["metadata"]["annotations"] = {"mine": TEXT, "k8s.io/x": "kept"}
    widget["status"]["conditions"][0]["message"] = f"refused: {json.dumps(TEXT)}"
    child = pod("child", TEAM)
    child["spec"] = {"containers": [{"env": [{"name": "TEXT", "value": TEXT}]}]}
    objects["pods"].append(child)
    data = {"data": {"conf": "s3cr3t"}, "metadata": {"name": "conf", "namespace": TEAM}}
    objects["configmaps"].append(data)


CHANGES: tuple[Change, ...] = (
    *(argument(f"--{flag}=") for flag in ("lease-name", "lease-namespace", "namespace")),
    argument("--namespace-selector="),
    *(variable(name) for name in ("WIDGET_OPERATOR_LEASE_NAME", "WATCH_NAMESPACE")),
    field("deployments/0/spec/template/spec/serviceAccountName"),
    field("deployments/0/spec/selector/matchLabels/a"),
    field("deployments/0/metadata/labels/app.kubernetes.io~1version"),
    *(field(f"deployments/0/metadata/{part}") for part in ("name", "namespace")),
    *(field(f"leases/0/spec/{part}") for part in ("holderIdentity", "renewTime")),
    field("pods/0/metadata/name"),
    field("widgets/0/status/phase"),
    field("namespaces/1/metadata/name"),
    field("customresourcedefinitions/0/metadata/labels/app.kubernetes.io~1version"),
    *(waiting, failing, event, deleting, rolling, gone, private, failing, private),
)


def look_alike(objects: Objects, rng: random.Random, value: str) -> bool:
    """Have a tenant's copy of the operator; return whether its namespace's rights vouch for it."""
    fake = deployment(rng.choice(["--lease-name=", "--namespace-selector=", "--x="]) + value)
    fake["metadata"]["namespace"] = TENANT
    # The tenant claims to be of the release that the CRD names.
    granted = rng.random() < 0.5
    if granted:
        fake_container = container(fake)
        fake_container["args"] = [f"--namespace={TENANT}", "--leader-elect", "--widget-image=a"]
        fake_container["args"].append(f"--lease-namespace={HOME}")
        objects["granted"].append([f"system:serviceaccount:{TENANT}:widget", TENANT])
    objects["deployments"].append(fake)
    binding: Raw = {
        "metadata": {"name": "scraper", "labels": {"app.kubernetes.io/name": NAME}},
        "roleRef": {"name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "widget", "namespace": TENANT}],
    }
    objects["clusterrolebindings"] = [binding]
    return granted


@pytest.fixture
def kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Kubectl]:
    class Here(Kubectl):
        commands: list[list[str]] = []  # noqa: RUF012
        objects = healthy()
        refused = ""

    subject.use(SUBJECT)
    monkeypatch.setattr("kopf_kit.kubectl.client.subprocess.Popen", Here)
    monkeypatch.chdir(tmp_path)
    return Here


@pytest.mark.parametrize("cases", [50, pytest.param(500, marks=pytest.mark.long)])
def test_t6_whatever_a_cluster_has_the_plugin_answers_safely(
    kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str], cases: int
) -> None:
    for case in range(cases):
        rng = random.Random(f"{SEED} {case}")  # noqa: S311
        kubectl.objects, kubectl.refused = healthy(), ""
        subject.use(SUBJECT._replace(tells=rng.random() < 0.8))  # else it is on plain kopf
        kubectl.objects["gadgets"] = [{**owned("Gadget", "mine"), "spec": {"note": TEXT}}]
        values = rng.choices(HOSTILE, k=3)
        for value in values[: rng.randrange(1, 4)]:
            with suppress(IndexError):  # what was to change is gone
                rng.choice(CHANGES)(kubectl.objects, rng, value)
        is_granted = None
        if rng.random() < 0.4:
            is_granted = look_alike(kubectl.objects, rng, values[0])
        if rng.random() < 0.2:
            kubectl.refused = rng.choice(["nodes", "events", "create", "pods", "deployments"])
        where = f"SEED={SEED}, case {case}"
        for command in COMMANDS:
            Path("it.tar.gz").unlink(missing_ok=True)
            kubectl.commands.clear()
            code = program.main(command)
            printed = capsys.readouterr()
            told = printed.out + printed.err
            assert code in (0, 1, 3), (where, command)
            assert_asked(kubectl.commands, values, (where, command))
            assert_printed(told, (where, command))
            if code != 3 and command[0] == "doctor":
                assert_trusted(told, is_granted, (where, told))
        for name, text in bundle(Path("it.tar.gz")).items():
            assert not [part for part in PRIVATE if part in text], (where, name)
            assert all(char.isprintable() or char == "\n" for char in text), (where, name)


def assert_asked(commands: list[list[str]], values: list[str], where: Any) -> None:
    """Nothing that a tenant wrote is an option or a name for kubectl, and no Secret is read."""
    for _, *command in commands:
        end = command.index("--") if "--" in command else len(command)
        names = [name for name in ",".join(command[end + 1 :]).split(",") if name]
        assert all(OPTION.fullmatch(option) for option in command[:end]), (where, command)
        assert all(client.is_name(name) for name in names), (where, command)
        assert "secrets" not in names, (where, command)
        assert not [value for value in values if value in " ".join(command)], (where, command)


def assert_printed(told: str, where: Any) -> None:
    """Nothing steers the terminal, no line is endless, and no advice has a tenant's words."""
    assert all(char.isprintable() or char == "\n" for char in told), where
    assert max(map(len, told.splitlines()), default=0) < 20_000, where
    for line in told.splitlines():
        if line.strip().startswith("Do "):
            typed = " ".join(re.findall(r"`([^`]*)`", line))
            assert not re.search(r"touch|--server|--token|--as=", typed), where


def assert_trusted(told: str, is_granted: bool | None, where: Any) -> None:
    """A look-alike is ignored, or trusted in its namespace alone, and gets no rights by advice."""
    if is_granted is None:
        return
    blocks = re.split(r"\n(?=\S )", told)
    about_it = [block for block in blocks if re.search(rf"Operator +{FAKE}", block)]
    trusted = [block for block in blocks if re.match(rf"[✓!✗] \S+ +{FAKE}", block)]
    assert not trusted or (is_granted and TENANT in trusted[0]), where
    for block in about_it:
        assert "helm upgrade" not in block, where
        assert f"{HOME}/{NAME}: " not in block, "the Lease of another namespace is not its own"


def bundle(file: Path) -> dict[str, str]:
    """Return the texts in a support bundle, by their names."""
    if not file.exists():
        return {}
    with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as archive:
        return {
            member.name.partition("/")[2]: stream.read().decode()
            for member in archive
            if (stream := archive.extractfile(member))
        }


# --- the few scenarios that a user would notice ---------------------------------------------------


def test_all_is_well(kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]) -> None:
    codes = [program.main(command) for command in (["doctor"], ["why", "main"], ["status", "-A"])]

    told = capsys.readouterr().out
    assert codes == [0, 0, 0], told
    assert "1: 1 ready" in told
    assert "All is well." in told
    assert "Widget main: it is ready." in told
    assert "widget/main   True    3m" in told


def test_why_says_what_a_reason_means_and_what_the_operator_lacks(
    kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    message = 'pods "a" is forbidden: exceeded quota: none'
    failed = owned("Widget", "main", ready="False", reason="Forbidden", message=message)
    kubectl.objects["widgets"] = [failed]
    kubectl.objects["deployments"][0]["spec"]["replicas"] = 0
    event = {"type": "Warning", "reason": "Delayed", "message": "m", "lastTimestamp": ago(60)}
    about = {"name": "main", "uid": "main"}
    kubectl.objects["events"] = [{"metadata": {}, "involvedObject": about, **event}]

    assert program.main(["why", "widget/main", "-n", TEAM]) == 1

    told = capsys.readouterr().out
    assert told.startswith(
        "Widget main: a quota of the namespace leaves no room for what it needs. Besides, the "
        "operator is scaled to zero.\n"
    )
    assert f"Details   {message}" in told
    assert f"`kubectl -n {TEAM} describe resourcequota`" in told
    assert f"scale deployment/{NAME} --replicas=1" in told
    assert "Warning  Delayed  m" in told


def test_a_state_of_an_earlier_version_or_of_an_operator_that_is_gone_is_not_taken_for_ready(
    kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.objects["deployments"][0]["spec"]["replicas"] = 0
    assert program.main(["why", "main"]) == 1
    assert "it was ready when an operator last looked at it. Besides" in capsys.readouterr().out

    kubectl.objects["widgets"][0]["metadata"]["generation"] = 2
    assert program.main(["why", "main"]) == 1
    assert "this is of an earlier version of it; the operator" in capsys.readouterr().out
    assert program.main(["doctor"]) == 1
    assert "1 were not looked at: team/main" in capsys.readouterr().out


def test_an_unknown_name_a_refusal_and_a_file_that_exists(
    kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["why", "widgets/man"]) == 3
    assert "Did you mean main?" in capsys.readouterr().err
    Path("thesis.tar.gz").write_text("ten years of work")
    assert program.main(["support-bundle", "-f", "thesis.tar.gz"]) == 3
    assert Path("thesis.tar.gz").read_text() == "ten years of work"
    kubectl.refused = "widgets"
    assert program.main(["status", "-A"]) == 3
    assert "widgets.example.com-view" in capsys.readouterr().err


def test_the_bundle_keeps_what_a_schema_bounds(kubectl: type[Kubectl]) -> None:
    private(kubectl.objects, random.Random(0), "")  # noqa: S311

    assert program.main(["support-bundle", "-f", "it.tar.gz"]) == 0

    files = bundle(Path("it.tar.gz"))
    [kept] = json.loads(files["widgets.json"])
    hidden = {"secrets": ["pull"], "a": "<hidden>"}
    assert kept["spec"] == {"version": "3.6", "note": "<hidden>", "pod": hidden}
    assert kept["metadata"]["annotations"] == {"mine": "<hidden>", "k8s.io/x": "kept"}
    assert files[f"operators/{HOME}/{NAME}/logs/operator-0.operator.log"].endswith("fine\n")
    assert "secrets.json" not in files


@pytest.mark.parametrize(
    "does", ["signal.signal(signal.SIGUSR1, lambda *_: print('told', flush=True))", ""]
)
def test_the_bundle_has_only_those_told_that_take_the_signal(does: str) -> None:
    """Any other process would end by it, such as one of an older operator."""
    lines = ["import signal", does, "print('begun', flush=True)", "input()"]
    command = [sys.executable, "-c", "\n".join(lines)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        tell = support.TELL.format(pid=process.pid)
        subprocess.run([sys.executable, "-c", tell], check=True, timeout=30)
        assert not does or process.stdout.readline() == "told\n"
        process.communicate("\n", timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("copies", [1, 1000])
def test_r2_copies_of_the_operator_are_ignored_and_not_all_asked_about(
    copies: int, kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(copies):
        fake = deployment("--namespace=team")
        fake["metadata"].update(name=f"fake-{number}", namespace=TENANT)
        kubectl.objects["deployments"].insert(0, fake)

    assert program.main(["doctor"]) == 0

    told = capsys.readouterr().out
    assert f"✓ Operator     {HOME}/{NAME}" in told
    assert f"- Operator     ignored: {TENANT}/fake-0" in told
    assert len(kubectl.commands) < 40
    assert kubectl.questions < 40


def test_r2_an_operator_that_lost_its_rights_is_known_by_the_crd(
    kubectl: type[Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.objects["granted"] = []
    kubectl.objects["deployments"].append(deployment(namespace=TENANT))

    assert program.main(["doctor"]) == 1

    told = capsys.readouterr().out
    assert f"ignored: {FAKE}" in told
    assert "`helm upgrade` brings the roles and bindings back" in told
    assert ACCOUNT not in told
