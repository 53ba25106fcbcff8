"""The Message's own alerts and panel, and the runbooks' commands, fit what is installed."""

import re
from pathlib import Path
from typing import Any

import pytest

from chart.helm import NAMESPACE, Manifest, render
from chart.monitored import RELEASES, Release, expect, firing, series
from kopf_kit.chart import dashboard as chart_dashboard
from kopf_kit.project.definition import PROJECT
from kopf_kit.rig.paths import CHECKOUT

RUNBOOKS = (CHECKOUT / "docs" / "runbooks.md").read_text()
#: One that is part of the objects' names, and one that is their name.
CALLED = ["prod", "message-operator"]


class Installed:
    """What a runbook's words stand for, and what there is."""

    def __init__(self, release: str) -> None:
        rules = {"prometheusRule": {"enabled": True}}
        self.manifests = render({"metrics": rules}, release=release)
        (group,) = self.one("PrometheusRule")["spec"]["groups"]
        alert = group["rules"][0]
        self.words = {
            "NAMESPACE": alert["labels"]["namespace"],
            "OPERATOR": alert["labels"]["operator"],
        }
        pod = self.one("Deployment")["spec"]["template"]
        arguments = pod["spec"]["containers"][0]["args"]
        (lease,) = (a.partition("=")[2] for a in arguments if a.startswith("--lease-name="))
        self.names = {
            "deployment": {self.one("Deployment")["metadata"]["name"]},
            "pods": {self.one("Deployment")["metadata"]["name"]},  # what theirs begin with
            "lease": {lease},
            "serviceaccount": {pod["spec"]["serviceAccountName"]},
            "role": {m["metadata"]["name"] for m in self.manifests if m["kind"] == "Role"},
        }

    def one(self, kind: str) -> Manifest:
        """Return the only object of a kind."""
        (found,) = (manifest for manifest in self.manifests if manifest["kind"] == kind)
        return found

    def read(self) -> str:
        """Return the runbooks with the words replaced."""
        words = "|".join(self.words)
        return re.sub(rf"\b({words})\b", lambda word: self.words[word[1]], RUNBOOKS)


@pytest.mark.parametrize("release", CALLED)
def test_what_a_command_names_is_there(release: str) -> None:
    installed = Installed(release)
    text = installed.read()
    named: list[tuple[Any, ...]] = [
        *re.findall(r"\b(deployment|lease|pods)[/ ]([a-z][-a-z0-9]+)(?= |`|$)", text, re.MULTILINE),
        *(("serviceaccount", name) for name in re.findall(rf":{NAMESPACE}:([-\w]+)", text)),
        *(("role", name) for name in re.findall(r"`([-\w]+-leader-election)`", text)),
    ]

    for kind, name in named:
        assert name in installed.names[kind], f"{kind} {name}"


def test_what_a_command_looks_for_in_the_log_is_logged() -> None:
    runtime = CHECKOUT / "packages" / "kopf-runtime"
    logged = "".join(file.read_text() for file in runtime.rglob("*.py"))
    command = re.compile(r"logs .*\| grep (-i |-A \d+ )?('[^']+'|\w+)$", re.MULTILINE)
    sought = command.findall(RUNBOOKS)

    assert len(sought) > 5
    for option, text in sought:
        flags = re.IGNORECASE if option == "-i " else re.NOFLAG
        assert re.search(text.strip("'"), logged, flags), text


def test_the_commands_name_all_that_is_checked() -> None:
    # Else the test above would check nothing.
    for word in (
        "logs deployment/OPERATOR",
        "restart deployment/OPERATOR",
        "get lease OPERATOR",
        "update lease/OPERATOR",
        "system:serviceaccount:NAMESPACE:OPERATOR",
        "`OPERATOR-leader-election`",
        "describe pods OPERATOR",
    ):
        assert word in RUNBOOKS


def test_every_word_that_is_to_be_replaced_is_explained() -> None:
    explained = re.findall(r"^\| ([A-Z, ]+) \|", RUNBOOKS, re.MULTILINE)
    known = {word for words in explained for word in words.split(", ")}
    commands = " ".join(re.findall(r"kubectl [^|#\n`]+", RUNBOOKS))

    used = set(re.findall(r"\b[A-Z]{3,}\b", commands)) - {"HTTP"}
    assert used <= known


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_an_alert_fires_while_messages_are_in_a_phase_and_ends_after_it(
    tmp_path: Path, phase: str
) -> None:
    one = Release()
    count = f'message_operator_messages{{phase="{phase}"}}'
    # Two hours of trouble, then two well.
    test = {
        "input_series": [series(one, count, "1x120 0x120")],
        "promql_expr_test": [
            firing(f"MessageOperatorMessages{phase}", 115, one),
            firing(f"MessageOperatorMessages{phase}", 235),
        ],
    }

    expect(tmp_path, [test], one)


def test_messages_of_all_releases_are_added_up_and_replicas_count_them_once(tmp_path: Path) -> None:
    (query,) = (panel.query for panel in PROJECT.panels if panel.title == "Messages by phase")
    count = 'message_operator_messages{phase="Failed"}'
    one, two, _ = (series(release, count, "3x5") for release in RELEASES)
    standby = {**one, "series": one["series"].replace("x2x4z", "aaaaa")}
    test = {
        "input_series": [one, standby, two],
        "promql_expr_test": [
            {
                "expr": chart_dashboard.complete(query, selector=""),
                "eval_time": "5m",
                "exp_samples": [{"labels": '{phase="Failed"}', "value": 6}],
            }
        ],
    }

    expect(tmp_path, [test], Release())
