"""`kubectl message why`: explains what a Message waits for or why it fails, and what to do."""

from __future__ import annotations

import difflib
from typing import Any

from kopf_kit.kubectl import survey
from kopf_kit.kubectl import why as common
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.findings import FAILS, UNKNOWN, WAITS, WELL, Finding, complain, lines
from kopf_kit.kubectl.objects import NOT_SEEN, age
from kopf_kit.kubectl.text import Text, ago, paint
from kubectl_message import knowledge
from kubectl_message.messages import KIND, State, state

Object = dict[str, Any]

#: The beginning of the first line, by level.
SENTENCES = {
    WELL: Text("{name} prints: {says}.", "{name}: 출력하고 있습니다. {says}."),
    WAITS: Text("{name} does not print yet: {says}.", "{name}: 아직 출력하지 않습니다. {says}."),
    FAILS: Text("{name} does not print: {says}.", "{name}: 출력하지 못합니다. {says}."),
    UNKNOWN: Text("{name}: {says}.", "{name}: {says}."),
}
COLORS = {WELL: "green", WAITS: "yellow", FAILS: "red", UNKNOWN: "yellow"}
#: Reasons of a Pod that is starting: only its Events say what keeps it.
STARTING = ("PodPending", "ContainerCreating", "PodInitializing")

#: The name of a Message of which only an earlier version was looked at, which may still print.
EDITED = Text("{name}, as it is now,", "{name}(지금의 내용)")
#: What is to be done about the Message, and about the operator.
AND_DO = Text("{todo} As to the operator: {more}", "{todo} 오퍼레이터에 대해 할 일: {more}")


def of_name(kubectl: Kubectl, name: str) -> int:
    """Print why a Message does not print, or that it does; return the exit code."""
    message = kubectl.get(KIND, name)
    if message is None:
        complain(_unknown_name(kubectl, name))
        return 3
    now = state(message)
    finding = look(kubectl, now)
    _print(_called(now), finding, _reason(now))
    return 0 if finding.level == WELL else 1


def look(kubectl: Kubectl, now: State) -> Finding:
    """Return the finding about a Message; raise `KubectlError`."""
    if now.deleting:
        return _known(now._replace(reason="Terminating"), WAITS)
    if not now.phase:
        return _not_seen(kubectl, now)
    if now.prints:
        return _printing(kubectl, now)
    finding = _known(now, FAILS if now.phase == "Failed" else WAITS)
    if now.reason in STARTING:
        finding = finding._replace(detail=_last_warning(kubectl, now) or finding.detail)
    besides = held_up(kubectl, now)
    if besides is None or not besides.about:  # one may run outside the cluster
        return finding
    return finding._replace(
        level=besides.level,
        says=common.BESIDES.format(says=finding.says, more=besides.says),
        todo=AND_DO.format(todo=finding.todo, more=besides.todo),
        detail="; ".join(detail for detail in (finding.detail, besides.detail) if detail),
        about=besides.about,
    )


def _known(now: State, level: str) -> Finding:
    """Return the finding for a Message's reason."""
    entry = knowledge.find(now.reason, now.message)
    words = {"pod": now.pod, "name": now.name, "namespace": now.namespace}
    if entry is None:
        says = Text("its Pod does not run ({reason})", "파드가 실행되지 않습니다({reason})")
        todo = Text(
            "The details are all that is known; `kubectl -n {namespace} describe pod {pod}` may "
            "tell more.",
            "알려진 것은 자세한 내용뿐입니다. `kubectl -n {namespace} describe pod {pod}`도 "
            "확인하십시오.",
        )
        return Finding(level, says.format(reason=now.reason), todo.format(**words), now.message)
    return Finding(
        level, entry.says.format(**words), entry.todo.format(**words), now.message, entry.runbook
    )


def _printing(kubectl: Kubectl, now: State) -> Finding:
    """Check that the Pod exists if the status says that the Message prints."""
    says = Text("its text, every {s} s, by Pod {pod}", "파드 {pod}에서 {s}초마다 출력합니다")
    well = Finding(WELL, says.format(s=now.interval, pod=now.pod))
    try:
        pod = kubectl.get("pods", now.pod, now.namespace)
    except KubectlError as error:
        if error.key != "forbidden":
            raise
        return well
    if pod is not None and survey.is_ready(pod):
        return well
    besides = held_up(kubectl, now)
    if besides is not None:
        return besides
    return Finding(
        WAITS,
        Text("its Pod is gone or not ready", "파드가 없거나 준비되지 않았습니다"),
        Text(
            "The operator is about to notice; ask again in a moment.",
            "오퍼레이터가 곧 알아차립니다. 잠시 뒤에 다시 확인하십시오.",
        ),
        str(survey.trouble(pod)) if pod else "",
    )


def _not_seen(kubectl: Kubectl, now: State) -> Finding:
    held = held_up(kubectl, now)
    if held is not None:
        return held
    if (age(now.since) or 0) < common.PROMPT:
        return Finding(WAITS, common.SOON)
    return Finding(
        WAITS,
        NOT_SEEN,
        common.LOG.format(command="message"),
        runbook="MessageOperatorQueueStuck",
    )


def held_up(kubectl: Kubectl, now: State) -> Finding | None:
    """Return why the operator does not look at a Message, or None if there is no reason."""
    return common.held(kubectl, now.namespace, seen=bool(now.phase))


def _last_warning(kubectl: Kubectl, now: State) -> str:
    """Return the message of the Pod's last Warning Event, or an empty text."""
    chosen = f"involvedObject.name={now.pod},type=Warning"
    in_namespace = Kubectl(kubectl.options, now.namespace)
    try:
        events = in_namespace.list("events", f"--field-selector={chosen}")
    except KubectlError:
        return ""
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
    return str(events[-1].get("message", "")) if events else ""


def _unknown_name(kubectl: Kubectl, name: str) -> Finding:
    names = [message["metadata"]["name"] for message in kubectl.list(KIND)]
    close = difflib.get_close_matches(name, names, 3)
    says = Text(
        "there is no Message {name} in the namespace {here}",
        "네임스페이스 {here}에 이름이 {name}인 Message가 없습니다",
    )
    todo = Text(
        "Did the API server refuse it? `kubectl message why -f FILE` tries a manifest. In another "
        "namespace? `kubectl message status -A` lists them all.",
        "API 서버가 거부했다면 `kubectl message why -f FILE`로 매니페스트를 확인하십시오. 다른 "
        "네임스페이스에 있다면 `kubectl message status -A`로 모두 볼 수 있습니다.",
    )
    if close:
        todo = Text("Did you mean {it}?", "혹시 {it}입니까?").format(it=", ".join(close))
    return Finding(UNKNOWN, says.format(name=name, here=kubectl.here()), todo)


def _called(now: State) -> str:
    return str(EDITED.format(name=now.name)) if now.edited else now.name


def _reason(now: State) -> str:
    seconds = age(now.since)
    if not now.reason or seconds is None:
        return now.reason
    return f"{now.reason}, {common.FOR.format(age=ago(seconds))}"


def _print(name: str, finding: Finding, reason: str = "") -> None:
    sentence = SENTENCES[finding.level].format(name=name, says=finding.says)
    print(paint(str(sentence), COLORS[finding.level]))
    below = lines(finding, reason if finding.level != WELL else "")
    if below:
        print("", *below, sep="\n")
