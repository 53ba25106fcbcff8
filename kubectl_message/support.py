"""`kubectl message support-bundle`: collects in one file what a maintainer needs to help.

It asks for no Secret, and it hides the texts of Messages (`redaction`). What cannot be read is
named in the file, and the rest is collected.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubectl_message import doctor, names, survey
from kubectl_message.findings import FAILS, Finding, complain
from kubectl_message.kubectl import Kubectl, KubectlError
from kubectl_message.messages import KIND
from kubectl_message.operators import Operator
from kubectl_message.redaction import Redaction
from kubectl_message.text import Text
from kubectl_message.version import VERSION

Object = dict[str, Any]

#: The label of the Pods of Messages.
PODS = "--selector=app.kubernetes.io/name=message"
ABOUT_MESSAGES = "--field-selector=involvedObject.kind=Message"
CSV = "clusterserviceversions.operators.coreos.com"
#: What is taken of each log: as many of its last lines, and no more bytes.
LOGS = ("--timestamps", "--tail=10000", "--limit-bytes=4000000")

WRITTEN = Text(
    "{file} is written. It has no Secret and no text of a Message, but names of namespaces, "
    "Messages and nodes: look through it before you send it.",
    "{file} 파일을 만들었습니다. 시크릿과 Message의 텍스트는 없지만 네임스페이스와 Message, 노드의 "
    "이름은 있으므로, 보내기 전에 살펴보십시오.",
)
PARTLY = Text("What could not be read: {what}.", "읽지 못한 것: {what}.")
REFUSED = Text("{file} cannot be written", "{file} 파일을 만들 수 없습니다")
ELSEWHERE = Text(
    "Name another file: `-f FILE.tar.gz`. A file that exists is not overwritten.",
    "`-f FILE.tar.gz`로 다른 파일을 지정하십시오. 이미 있는 파일은 덮어쓰지 않습니다.",
)


class Missing(NamedTuple):
    """What could not be read, and what kubectl said."""

    what: str
    why: str


def write(kubectl: Kubectl, file: str | None) -> int:
    """Write the file; return the exit code, or raise `KubectlError` if there is no cluster."""
    versions = json.loads(kubectl.ask("version", "--output=json"))
    title = time.strftime("message-support-%Y%m%d-%H%M%S")
    path = file or f"{title}.tar.gz"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        complain(Finding(FAILS, REFUSED.format(file=path), ELSEWHERE, str(error.strerror)))
        return 3
    missing: list[Missing] = []
    with os.fdopen(handle, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        versions["plugin"] = VERSION
        _add(archive, f"{title}/versions.json", _json(versions))
        for name, text in _collected(kubectl, missing):
            _add(archive, f"{title}/{name}", text)
        told = "".join(f"{one.what}: {one.why}\n" for one in missing)
        _add(archive, f"{title}/missing.txt", told)
    print(WRITTEN.format(file=path))
    if missing:
        print(PARTLY.format(what=", ".join(one.what for one in missing)))
    return 0


def _collected(kubectl: Kubectl, missing: list[Missing]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file, and add what cannot be read to `missing`."""

    def listed(kind: str, *arguments: str, within: str | None = None) -> list[Object]:
        """Return the objects of a kind in a namespace, or in all, or else in the user's own."""
        if within:
            with _told(missing, f"{kind} in {within}"):
                return Kubectl(kubectl.options, within).list(kind, *arguments)
            return []
        with _told(missing, f"{kind} of all namespaces"):
            return kubectl.list(kind, *arguments, everywhere=True)
        with _told(missing, kind):
            return kubectl.list(kind, *arguments)
        return []

    messages = listed(KIND)
    hidden = Redaction(messages)
    yield "messages.json", hidden.json(messages)
    yield "pods.json", hidden.json(listed("pods", PODS))
    yield "events.json", hidden.json(listed("events", ABOUT_MESSAGES))
    with _told(missing, "the CRD"):
        yield "crd.json", _json(kubectl.get("customresourcedefinitions", KIND))
    with _told(missing, "the operators"):
        for operator in survey.look(kubectl).operators:
            folder = f"operators/{operator.namespace}/{operator.name}"
            yield f"{folder}/deployment.json", hidden.json(operator.deployment)
            yield f"{folder}/pods.json", hidden.json(operator.pods)
            yield f"{folder}/lease.json", hidden.json(operator.lease)
            events = listed("events", within=operator.namespace)
            own = [one for one in events if _is_about(one, operator)]
            yield f"{folder}/events.json", hidden.json(own)
            with contextlib.suppress(KubectlError):  # without OLM there is no such kind
                csvs = Kubectl(kubectl.options, operator.namespace).list(CSV)
                own = [one for one in csvs if KIND in json.dumps(one)]
                yield f"{folder}/clusterserviceversions.json", hidden.json(own)
            for name, text in _logs(kubectl, operator, missing):
                yield f"{folder}/logs/{name}.log", hidden.text(text)
    printed = io.StringIO()
    with _told(missing, "doctor"), contextlib.redirect_stdout(printed):
        doctor.report(kubectl)
    yield "doctor.txt", hidden.text(printed.getvalue())


def _is_about(event: Object, operator: Operator) -> bool:
    """Return whether an Event is about an operator's Deployment, ReplicaSets, Pods or Lease."""
    name = str((event.get("involvedObject") or {}).get("name") or "")
    return name.startswith((operator.name, operator.lease_name))


def _logs(
    kubectl: Kubectl, operator: Operator, missing: list[Missing]
) -> Iterator[tuple[str, str]]:
    """Yield the logs of the containers of an operator's Pods, with the former ones'."""
    where = f"--namespace={operator.namespace}"
    for pod in operator.pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            if not (names.is_name(name) and names.is_name(container["name"])):
                continue
            former = ["--previous"] if container.get("restartCount") else []
            for flag in ["", *former]:
                flags = [where, f"--container={container['name']}", *LOGS, *[flag] * bool(flag)]
                title = f"{name}.{container['name']}{flag.replace('--', '.')}"
                with _told(missing, f"the log {title}"):
                    yield title, kubectl.ask("logs", *flags, "--", name)


@contextlib.contextmanager
def _told(missing: list[Missing], what: str) -> Iterator[None]:
    """Add to `missing` what kubectl refuses during the block."""
    try:
        yield
    except KubectlError as error:
        missing.append(Missing(what, error.said or str(error.refusal.says)))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    body = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(body), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(body))
