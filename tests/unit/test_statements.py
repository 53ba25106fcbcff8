"""Limits, defaults, times and versions that the pages state are those of the code."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from flightticket_operator import operator as flights

from bench import reviews, run
from kopf_kit.rig import public_images, registry, versions
from kopf_kit.rig.paths import CHECKOUT
from kopf_runtime import Controller
from kopf_runtime.declaring import errors
from kopf_runtime.declaring.admission import MAX_TIMEOUT
from kopf_runtime.process.manager import STUCK
from kopf_runtime.watching import selections
from kopf_runtime.working import external, pace, queue
from message_operator import messages
from message_operator.settings import Settings
from tests.support.console import every_test

KIND, HELM = (".".join(map(str, versions.FITTING[name][0])) for name in ("kind", "helm3"))
INTERVAL, SPEC = get_args(messages.Interval)[1], messages.Spec()
OURS: dict[str, Any] = {
    field.name: field.metadata.get("default") for field in dataclasses.fields(Settings)
}
TIMEOUT = inspect.signature(Controller.validate).parameters["timeout"].default
TICKETS = "examples/flightticket/README"
RETRIES = round(queue.Retries().base * 1000), round(queue.Retries().cap)
BUILDING = "".join(re.findall(r"\d+", public_images.BUILD_TIME))
_SURVIVED = (CHECKOUT / "examples" / "plain-kopf" / "README.md").read_text()
#: What an operator on plain kopf passes of the suite, and of how many tests.
_ROWS = re.findall(r"(?:_write|sequences|watches)` \| (\d+) of (\d+)", _SURVIVED)
PLAIN_KOPF = [sum(map(int, numbers)) for numbers in zip(*_ROWS, strict=True)]
#: A page, what it says in English and in Korean with groups, and the values of the groups.
STATEMENTS: list[tuple[Any, ...]] = [
    ("docs/messages", r"at most (\d+) characters", r"(\d+)자까지", messages.LONGEST_NAME),
    ("docs/messages", r"at most ([\d,]+) bytes", r"최대 ([\d,]+)바이트", messages.LONGEST_TEXT),
    ("docs/in-go", *2 * [r"at most (\d+) bytes"], messages.LONGEST_TEXT),
    ("docs/in-go", *2 * [r"from (\d+) to (\d+)"], INTERVAL.ge, INTERVAL.le),
    ("docs/messages", r'bytes; default "(.+?)"', r'바이트, 기본값 "(.+?)"', SPEC.text),
    ("docs/messages", r"from (\d+) to (\d+)", r"(\d+)부터 (\d+)까지", INTERVAL.ge, INTERVAL.le),
    ("docs/messages", r"\d; default (\d+)", r"까지, 기본값 (\d+)", SPEC.interval_seconds),
    ("docs/messages", "(half a minute)", r"(\d+초) 안", errors.MAX_PAUSE_SECONDS),
    ("docs/runbooks", "(half a minute)", r"(\d+초) 안", errors.MAX_PAUSE_SECONDS),
    ("docs/runbooks", r"longer than (\d+ minutes)", r"(\d+분) 넘게 걸리면", STUCK),
    ("docs/monitoring", r"on port (\d+)", r"(\d+)번 포트", OURS["metrics_bind_address"][1:]),
    ("docs/versions", r"port` \((\d+)\)", r"port`\((\d+)\)", OURS["webhook_bind_address"][1:]),
    ("docs/install", r"\) ([\d.]+) or newer, and Kube", r"\) ([\d.]+) 이상과 쿠버네티스", HELM),
    ("README", r"kind \(([\d.]+) or newer\)", r"kind\(([\d.]+) 이상\)", KIND),
    ("README", r"Helm \(([\d.]+) or newer", r"Helm\(([\d.]+) 이상", HELM),
    ("README", r"Kubernetes ([\d.]+) or newer", r"쿠버네티스 ([\d.]+) 이상", versions.OLDEST),
    ("README", r"images in about (\d+) min", r"약 (\d+)분 동안", BUILDING),
    ("charts/message-operator/README", r"Helm ([\d.]+) or newer", "", HELM),
    ("docs/admission", r"`\*\* of (\d+ seconds)", r"`timeout`\((\d+초)\)", TIMEOUT),
    ("docs/admission", r"A call may take (\d+ seconds)", r"(\d+초) 안에 끝", MAX_TIMEOUT),
    ("docs/architecture", r"every (\d+ seconds)", r"(\d+초)마다 리스", OURS["lease_retry_period"]),
    ("docs/architecture", r"changed for (\d+ seconds)", r"(\d+초) 동안", OURS["lease_duration"]),
    ("docs/architecture", r"(\d+ seconds) old", r"(\d+초) 이내", OURS["lease_renew_deadline"]),
    ("docs/architecture", r"After (\w+) replacements", r"연달아 (\S+) 번 교체", pace.FREE),
    ("docs/architecture", r"up to (\w+ minutes)", r"최대 (\d+분)이", pace.MAX_PAUSE_SECONDS),
    ("docs/reliability", r"every (\w+ minutes)", r"(\d+분)마다", OURS["resync_period"]),
    ("docs/architecture", r"Every (\w+ minutes)", r"(\d+분)마다", OURS["resync_period"]),
    ("docs/runtime", r"(\d+) objects of each kind", r"종류마다 (\d+)개까지", selections.MAX_NAMES),
    ("docs/external", r"second to (\w+ minutes)", r"(\d+분)까지 두", external.MAX_PAUSE_SECONDS),
    (
        "docs/external",
        r"`after` is at most (\w+ minutes)",
        r"대기 시간을 (\d+분)까지",
        errors.MAX_RETRY_SECONDS,
    ),
    ("docs/olm", r"REGISTRY=(\S+)", r"REGISTRY=(\S+)", registry.ADDRESS),
    ("docs/benchmarks", r"CPU grew by (\d+)%", "", round(100 * (run.TOLERATED - 1))),
    ("docs/benchmarks", r"has (\d+) workers, its", "", OURS["workers"]),
    ("docs/benchmarks", r"(\d+) edits a second", "", reviews.EDITS),
    ("docs/benchmarks", r"it makes (\w+) at a time", "", reviews.WIDTH),
    ("docs/in-go", r"queue.py`: (\d+) ms to (\d+) s", r"queue.py`. (\d+)ms에서 (\d+)초", *RETRIES),
    ("README", r"(\d+) of the (\d+) tests", "", *PLAIN_KOPF),
    ("README", "", r"테스트 (\d+)개 가운데 (\d+)개를", *reversed(PLAIN_KOPF)),
    (TICKETS, r"(\d+) calls in a", r"1초에 (\d+)번", flights.Settings().booking_rate),
    (TICKETS, r"booking every (\w+ minutes)", r"(\d+분)마다 예약", flights.POLL),
]
NUMBERS = {"half a": 0.5, "an": 1, "four": 4, "five": 5, "ten": 10, "한": 1, "네": 4, "다섯": 5}
SECONDS = {None: 1, "s": 1, "초": 1, "m": 60, "분": 60, "h": 3600, "시": 3600}
_ALERT = re.compile(r"^- alert: (\w+)\n(?:  .*\n)*?  for: (\d+[mh])$", re.MULTILINE)
_TEMPLATES = (CHECKOUT / "charts" / "message-operator" / "templates").rglob("*.*")
ALERTS = [found for file in _TEMPLATES for found in _ALERT.findall(file.read_text())]
#: What a runbook says of the time until its alert.
TIMES = {
    ".md": r"(?:[Ff]or|and) (\d+ minutes|an hour)",
    ".ko.md": r"(\d+분|한 시간) (?:동|넘)|(\d+분)을",
}


def text_of(page: str) -> str:
    return " ".join((CHECKOUT / page).read_text().split())


def plain(value: Any) -> Any:
    """Return a number in a text, a time in seconds; anything else as it is."""
    found = re.fullmatch(rf"([\d,]+|{'|'.join(NUMBERS)}) ?([smh초분시])?[a-z간]*", str(value))
    if not isinstance(value, str) or not found:
        return value
    return (NUMBERS.get(found[1]) or int(found[1].replace(",", ""))) * SECONDS[found[2]]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement[0])
def test_a_page_states_what_its_source_has(statement: tuple[Any, ...]) -> None:
    page, english, korean, *values = statement

    for ending, pattern in ((".md", english), (".ko.md", korean)):
        if pattern:
            found = re.search(pattern, text_of(page + ending))
            assert found, f"{page}{ending} does not say {pattern} any more: correct the row"
            assert [plain(group) for group in found.groups()] == [plain(value) for value in values]


@pytest.mark.parametrize("ending", TIMES)
@pytest.mark.parametrize(("alert", "time"), ALERTS)
def test_a_runbook_says_how_long_until_its_alert(alert: str, time: str, ending: str) -> None:
    runbook = text_of(f"docs/runbooks{ending}").partition(f"## {alert} ")[2].partition(" ## ")[0]

    said = [plain("".join(found)) for found in re.findall(TIMES[ending], runbook)]
    assert time == "0m" or plain(time) in said


#: What a page says without exception: docs/decisions/repository.md has why it is these words.
_ABSOLUTE = re.compile(r"\b(?:always|everything|never|nothing)\b", re.IGNORECASE)
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`]+`|\]\([^)]+\)", re.MULTILINE | re.DOTALL)
#: Tests type these pages, or compare each figure; contributors and machines write the others.
_SHOWN = {"tutorial.md", "in-go.md", "benchmarks.md", "runbooks.md", "development.md"}
_JUDGED = [
    page
    for pages in ("README.md", "docs/*.md", "examples/*/README.md", "packages/*/README.md")
    for page in sorted(CHECKOUT.glob(pages))
    if not page.name.endswith(".ko.md") and page.name not in _SHOWN
]


@pytest.mark.parametrize("page", _JUDGED, ids=str)
def test_what_a_page_says_without_exception_names_the_test_that_shows_it(page: Path) -> None:
    known = every_test()
    unproved = []
    for block in re.split(r"\n\n|\n(?= *(?:- |\d+\. |\| ))", _CODE.sub("", page.read_text())):
        said, *comments = re.split(r"<!--|-->", block)
        named = set(re.findall(r"test_\w+", " ".join(comments[::2])))
        if _ABSOLUTE.search(said + " ".join(comments[1::2])) and (not named or named - known):
            unproved.append(block)

    assert unproved == []
