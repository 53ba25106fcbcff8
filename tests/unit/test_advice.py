"""`kubectl message` knows what the operator, the API server and the kubelet say of a Message."""

import ast
import re
from pathlib import Path
from typing import Any

from chart import helm
from kopf_kit.kubectl import advice, checks
from kopf_kit.kubectl.subject import Entry, Right
from kopf_kit.release import packed
from kopf_runtime.cluster import http
from kopf_runtime.reporting import troubles
from message_operator import messages
from tests.chart.projects import bound_roles, granted

CHECKOUT = Path(__file__).parents[2]
RUNTIME = CHECKOUT / "packages" / "kopf-runtime" / "src" / "kopf_runtime"
SUBJECT = packed.subject()
KNOWN = SUBJECT.advice
#: Said where all is well, of kinds with an outside (a Message has none), or by an Event alone.
OTHERS = {"PodRunning", "Reconciled", "Progressing", "NotReady", "AnotherInstallation"}
#: Said of requests that no object's state tells of: a replica's that does not lead or has ended.
UNSAID = {"Fenced", "NotConnected"}
#: What a reason is an argument of, besides a status and a trouble.
ERRORS = ("ApiError", "Call", "author_waits", "contradicted")
#: What the API server says by the status of its answer, as client-go names them.
API_SERVER = {
    *("BadRequest", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Invalid", "Timeout"),
    *("ServerTimeout", "TooManyRequests", "InternalError", "ServiceUnavailable", "Expired"),
    *("RequestEntityTooLarge", "AlreadyExists"),
}


def calls(folder: Path, *names: str) -> list[Any]:
    """Return the calls of functions in the modules of a folder, or in a module."""
    files = folder.rglob("*.py") if folder.is_dir() else [folder]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    return [node for node in nodes if isinstance(node, ast.Call) and name_of(node.func) in names]


def name_of(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def reasons() -> set[str]:
    """Return the reasons that the code of the operator and the runtime names."""
    made = [
        argument.value
        for folder in (CHECKOUT / "operator", RUNTIME)
        for call in calls(folder, "_stop", "Trouble", "Status", "Wait", "NotReadableError", *ERRORS)
        for argument in (part for given in call.args for part in getattr(given, "values", [given]))
        if isinstance(argument, ast.Constant)
    ]
    source = (CHECKOUT / "operator" / "message_operator" / "messages.py").read_text()
    returned = re.findall(r'return "(?:Pending|Failed)", "(\w+)"', source)
    words = [word for word in made if isinstance(word, str)]
    failed = (kind.__name__.removesuffix("Error") for kind in http.HttpError.__subclasses__())
    said = {word for word in words if re.fullmatch(r"[A-Z][a-z]\w+", word)} - UNSAID
    return said | {*returned, *failed}


def events() -> set[str]:
    """Return the reasons of the Events that the runtime's code records."""
    final = {reason for reason, rule in troubles.RULES.items() if rule.final}
    planned = [
        call.args[1].value
        for module in ("declaring/records.py", "working/decide.py")
        for call in calls(RUNTIME / module, "Plan")
        if len(call.args) > 1
    ]
    recorded = [
        call.args[1].value
        for call in calls(RUNTIME / "reporting" / "status.py", "_record", "warning")
        if len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
    ]
    (refused,) = re.findall(
        r'event="(\w+)" if error.final else "(\w+)"',
        (RUNTIME / "reporting" / "troubles.py").read_text(),
    )
    return {*final, *planned, *recorded, *refused}


def unknown(words: set[str], entries: tuple[Entry, ...]) -> set[str]:
    named = [entry for entry in entries if "*" not in entry.of]
    return {word for word in words if not any(advice.is_called(entry, word) for entry in named)}


def test_each_reason_and_each_event_has_an_entry() -> None:
    assert reasons() >= {"Conflict", "BackOff", "NamespaceNotServed", "PodMissing", "Unreadable"}
    assert events() >= {"Created", "Healed", "LeftAlone", "Refused", "Conflict"}
    stopping = {*troubles.RULES} | messages.STUCK | API_SERVER
    assert reasons() >= {"Refused", "SyncFailed", "SecretInvalid", "Disconnected", "TooLarge"}
    assert unknown(reasons() - OTHERS | stopping, KNOWN.reasons) == set()
    assert unknown(events(), KNOWN.events) == set()


def test_each_reason_that_a_runbook_names_has_an_entry() -> None:
    text = "".join(
        runbook(f"MessageOperatorMessages{name}").partition("**What to do**")[2]
        for name in ("Failed", "Pending")
    )
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", text))

    assert {"ErrImagePull", "ImagePullBackOff"} <= named
    assert unknown(named, KNOWN.reasons) == set()


def runbook(alert: str, ending: str = ".md") -> str:
    """Return the section of an alert, or an empty text."""
    page = (CHECKOUT / "docs" / f"runbooks{ending}").read_text()
    return page.partition(f"\n## {alert}\n\n")[2].partition("\n## ")[0]


def test_each_alert_has_a_runbook() -> None:
    (rules,) = [
        manifest
        for manifest in helm.render({"metrics": {"prometheusRule": {"enabled": True}}})
        if manifest["kind"] == "PrometheusRule"
    ]
    alerts = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}

    assert {*SUBJECT.alerts} == alerts
    for entry in KNOWN.reasons:
        assert entry.alert in alerts


def test_doctor_asks_for_the_rights_that_the_chart_gives() -> None:
    roles = bound_roles(
        watchNamespaceSelector="team=a", leaderElection={"enabled": True}, replicaCount=2
    )
    asked = (*SUBJECT.rights, *checks.LEASE, *checks.SELECTING)

    given = {Right(r.group, r.resource, r.verb) for r in granted(roles, "Role", "ClusterRole")}
    assert {Right(*right) for right in asked} == given
