"""The plugin knows what the operator, the API server and the kubelet say, in both languages."""

import ast
import re
import string
from pathlib import Path
from typing import Any

import pytest

from chart import helm
from kopf_kit.kubectl import checks, client, pods, subject
from kopf_kit.kubectl.subject import Right
from kopf_kit.kubectl.text import Text
from kopf_runtime.reporting import troubles
from kubectl_message import explain, knowledge
from kubectl_message.knowledge.alerts import ALERTS, BY_NAME
from kubectl_message.knowledge.entry import HOME, Entry
from kubectl_message.knowledge.events import BY_REASON, EVENTS
from message_operator import messages
from tests.support.rights import bound_roles, granted

CHECKOUT = Path(__file__).parents[3]
RUNTIME = CHECKOUT / "packages" / "kopf-runtime" / "src" / "kopf_runtime"


def operators_own() -> set[str]:
    """Return the reasons that the code of the operator names."""
    found: set[object] = set()
    for file in (*(CHECKOUT / "operator").rglob("*.py"), *RUNTIME.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and name_of(node.func) in ("_stop", "Trouble", "Status"):
                found.update(a.value for a in node.args if isinstance(a, ast.Constant))
    told = {word for word in found if isinstance(word, str) and re.fullmatch(r"[A-Z]\w+", word)}
    source = (CHECKOUT / "operator" / "message_operator" / "messages.py").read_text()
    return told | set(re.findall(r'return "(?:Pending|Failed)", "(\w+)"', source))


def name_of(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


#: Said of kinds with values that only one object may have.
UNIQUE = {"HoldsLost"}
#: Said where all is well, or of kinds that have other children or an outside; a Message has none.
#: `Paused` is the reason of those alone whose plan needs more than the object.
OTHERS = {"PodRunning", "Reconciled", "Progressing", "NotReady", "Paused", *UNIQUE}
#: What the API server says by the status of its answer, as client-go names them.
API_SERVER = {
    "BadRequest",
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "Conflict",
    "Invalid",
    "Timeout",
    "ServerTimeout",
    "TooManyRequests",
    "InternalError",
    "ServiceUnavailable",
    "Expired",
    "RequestEntityTooLarge",
    "AlreadyExists",
}


def test_it_finds_reasons_in_the_operators_code() -> None:
    # Else the test below would check nothing.
    assert operators_own() >= {
        "Conflict",
        "BackOff",
        "NamespaceNotServed",
        "PodMissing",
        "Unreadable",
    }


def test_each_reason_has_an_entry() -> None:
    said = operators_own() | messages.STUCK | API_SERVER

    assert {reason for reason in said - OTHERS if not knowledge.about(reason)} == set()


def events_of_the_operator() -> set[str]:
    """Return the reasons of all Events that the operator's code records about a Message."""
    final = {
        f"Pod{reason}" if reason == "StuckTerminating" else reason
        for reason, rule in troubles.RULES.items()
        if rule.final
    }
    planned = {
        call.args[1].value
        for module in ("declaring/records.py", "working/decide.py")
        for call in calls(module, "Plan")
        if len(call.args) > 1
    }
    recorded = {
        call.args[1].value
        for name in ("_record", "warning")
        for call in calls("reporting/status.py", name)
        if len(call.args) > 1 and constant(call)
    }
    (refused,) = re.findall(
        r'event="(\w+)" if error.final else "(\w+)"',
        (RUNTIME / "reporting" / "troubles.py").read_text(),
    )
    return {*final, *planned, *recorded, *refused} - UNIQUE


def calls(module: str, name: str) -> list[Any]:
    """Return the calls of a function in a module of the runtime."""
    nodes = ast.walk(ast.parse((RUNTIME / module).read_text()))
    return [node for node in nodes if isinstance(node, ast.Call) and name_of(node.func) == name]


def constant(call: Any) -> bool:
    return isinstance(call.args[1], ast.Constant)


def test_each_event_has_an_entry() -> None:
    assert set(BY_REASON) == events_of_the_operator()


def test_explain_without_a_word_lists_every_reason_event_and_alert(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain.everything() == 0

    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    reasons = {reason for entry in knowledge.ENTRIES for reason in entry.reasons}
    assert {*reasons, *BY_REASON, *BY_NAME} <= {*listed}
    assert all(listed.count(reason) == 1 for reason in BY_REASON.keys() - reasons)


@pytest.mark.parametrize("word", ["forbidden", "healed", "MESSAGEOPERATORNOLEADER"])
def test_explain_knows_a_word_in_any_case(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.one(word) == 0

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [("forbiden", "Did you mean Forbidden?"), ("zzz", "`kubectl message explain` lists them.")],
)
def test_explain_names_what_is_nearest_to_an_unknown_word(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain.one(word) == 2

    assert said in capsys.readouterr().err


def test_each_reason_that_a_runbook_names_has_an_entry() -> None:
    runbooks = "".join(
        runbook(name).partition("**What to do**")[2]
        for name in ("MessageOperatorMessagesFailed", "MessageOperatorMessagesPending")
    )
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", runbooks))

    assert {"ErrImagePull", "ImagePullBackOff"} <= named
    assert {reason for reason in named if not knowledge.about(reason)} == set()


def runbook(alert: str, ending: str = ".md") -> str:
    """Return the section of an alert; empty if there is none."""
    page = (CHECKOUT / "docs" / f"runbooks{ending}").read_text()
    return page.partition(f"\n## {alert}\n\n")[2].partition("\n## ")[0]


def test_each_alert_has_an_entry_with_its_runbooks_title() -> None:
    (rules,) = [
        manifest
        for manifest in helm.render({"metrics": {"prometheusRule": {"enabled": True}}})
        if manifest["kind"] == "PrometheusRule"
    ]
    alerts = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}

    assert set(BY_NAME) == alerts
    for alert in ALERTS:
        assert runbook(alert.name).startswith(f"{alert.says.en} (severity: ")
        assert runbook(alert.name, ".ko.md").startswith(f"{alert.says.ko} (심각도: ")


def words(text: str) -> set[str]:
    """Return what is to be filled in."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def sentences() -> list[Text]:
    """Return all sentences of the knowledge."""
    known = (
        *knowledge.ENTRIES,
        *EVENTS,
        *ALERTS,
        *client.REFUSALS,
        *client.FILES,
        client.MISSING,
        client.SLOW,
    )
    said = [sentence for entry in known for sentence in (entry.says, entry.todo)]
    return [*said, *(advice.todo for advice in pods.ADVICE)]


def test_everything_is_said_in_both_languages() -> None:
    for text in sentences():
        assert re.search("[가-힣]", text.ko), text
        assert not re.search("[가-힣]", text.en), text
        assert words(text.en) == words(text.ko)
        assert set(re.findall("`(kubectl[^`]+)`", text.en)) == set(
            re.findall("`(kubectl[^`]+)`", text.ko)
        )


def test_the_runbook_that_an_entry_names_is_there_in_both_languages() -> None:
    for entry in knowledge.ENTRIES:
        for language, link in subject.current().runbook(entry.runbook)._asdict().items():
            ending = {"en": ".md", "ko": ".ko.md"}[language]

            assert link.endswith(f"/docs/runbooks{ending}#{entry.runbook.lower()}")
            assert ("**할 일**" in runbook(entry.runbook, ending)) == (language == "ko")


def test_its_home_is_the_charts() -> None:
    assert f"home: {HOME}\n" in (helm.CHART / "Chart.yaml").read_text()


def key(entry: Entry | None) -> str:
    return entry.says.en if entry else ""


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        # As API servers of Kubernetes 1.36 say it.
        ("Forbidden", 'pods "a" is forbidden: exceeded quota: none, requested: pods=1', "quota"),
        ("Forbidden", 'pods "a" is forbidden: failed quota: q: must specify limits.cpu', "require"),
        ("Forbidden", 'violates PodSecurity "restricted:latest": x', "Pod Security"),
        (
            "Forbidden",
            "unable to create new content in namespace x because it is being terminated",
            "being deleted",
        ),
        ("Forbidden", 'User "system:serviceaccount:a:b" cannot create resource "pods"', "no right"),
        ("Forbidden", "minimum cpu usage per Container is 10m, but request is 1m", "LimitRange"),
        ("Forbidden", "something new", "does not admit"),
        ("Teapot", 'admission webhook "a.b" denied the request: no', "webhook refuses"),
        ("Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "policy"),
        ("InternalError", 'Internal error: failed calling webhook "a.b"', "does not answer"),
        ("InternalError", "etcd is tired", "fails or is busy"),
        ("PodStuckTerminating", "The former Pod is held by the finalizer a/b.", "finalizer"),
        ("PodStuckTerminating", "its node n has not confirmed it", "node does not confirm"),
        ("Conflict", "Pod msg-a exists and does not belong to this Message.", "already has"),
    ],
)
def test_the_message_tells_the_causes_of_a_reason_apart(
    reason: str, message: str, says: str
) -> None:
    assert says in key(knowledge.find(reason, message))


def test_a_reason_that_nobody_knows_is_not_guessed() -> None:
    assert knowledge.find("Teapot", "short and stout") is None


def test_doctor_asks_for_the_rights_that_the_chart_gives() -> None:
    roles = bound_roles(
        watchNamespaceSelector="team=a", leaderElection={"enabled": True}, replicaCount=2
    )
    asked = (*subject.current().rights, *checks.LEASE, *checks.SELECTING)

    given = {Right(r.group, r.resource, r.verb) for r in granted(roles, "Role", "ClusterRole")}
    assert {Right(*right) for right in asked} == given
