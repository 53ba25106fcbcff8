"""`kubectl NAME support-bundle`: collects in one file what a maintainer needs to help.

It asks for no Secret, and it hides what users wrote (`redaction`). What cannot be read is named in
the file, and the rest is collected.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kopf_kit.plugin import doctor, names, subject, survey
from kopf_kit.plugin.findings import FAILS, Finding, complain
from kopf_kit.plugin.health import Judge, fare
from kopf_kit.plugin.kubectl import Kubectl, KubectlError
from kopf_kit.plugin.operators import Operator
from kopf_kit.plugin.redaction import Redaction
from kopf_kit.plugin.text import Text, escaped

Object = dict[str, Any]

#: The label with the operator's name that the runtime gives what is made for an object.
MADE = "--selector=app.kubernetes.io/managed-by="
#: What an operator may create and nobody has to see; a ServiceAccount's tokens, for example.
UNSEEN = ("secrets", "events", "leases", "serviceaccounts")
#: The groups of what can only be asked, such as whether somebody has a right.
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
ABOUT = "--field-selector=involvedObject.kind={}"
CSV = "clusterserviceversions.operators.coreos.com"
#: What is taken of each log: as many of its last lines, and no more bytes.
LOGS = ("--timestamps", "--tail=10000", "--limit-bytes=4000000")

WRITTEN = Text(
    "{file} is written. It has no Secrets, and the texts in {many} are hidden, but it has names, "
    "such as those of namespaces, nodes and users: look through it before you send it.",
    "{file} 파일을 만들었습니다. 시크릿은 없고 {many}의 텍스트는 가렸지만 네임스페이스와 노드, "
    "사용자 등의 이름은 있으므로, 보내기 전에 살펴보십시오.",
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


def write(kubectl: Kubectl, file: str | None, judge: Judge = fare) -> int:
    """Write the file; return the exit code, or raise `KubectlError` if there is no cluster."""
    ours = subject.current()
    versions = json.loads(kubectl.ask("version", "--output=json"))
    title = ours.command + time.strftime("-support-%Y%m%d-%H%M%S")
    path = file or f"{title}.tar.gz"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        complain(Finding(FAILS, REFUSED.format(file=path), ELSEWHERE, str(error.strerror)))
        return 3
    missing: list[Missing] = []
    with os.fdopen(handle, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        versions["plugin"] = ours.version
        _add(archive, f"{title}/versions.json", _json(versions))
        for name, text in _collected(kubectl, missing, judge):
            _add(archive, f"{title}/{name}", text)
        lines = "".join(f"{part.what}: {part.why}\n" for part in missing)
        _add(archive, f"{title}/missing.txt", lines)
    print(WRITTEN.format(file=path, many=ours.many))
    if missing:
        print(PARTLY.format(what=", ".join(part.what for part in missing)))
    return 0


def _collected(kubectl: Kubectl, missing: list[Missing], judge: Judge) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file, and add what cannot be read to `missing`."""

    def listed(kind: str, *arguments: str, within: str | None = None) -> list[Object]:
        """Return the objects of a kind in a namespace or in all; if refused, in the user's own."""
        if within:
            with _told(missing, f"{kind} in {within}"):
                return Kubectl(kubectl.options, within).list(kind, *arguments)
            return []
        with _told(missing, f"{kind} of all namespaces"):
            return kubectl.list(kind, *arguments, everywhere=True)
        with _told(missing, kind):
            return kubectl.list(kind, *arguments)
        return []

    kinds = subject.current().kinds
    objects = [(kind, listed(kind.resource)) for kind in kinds]
    hidden = Redaction(objects)
    for kind, of_kind in objects:
        yield _file(kind.resource), hidden.own(kind, of_kind)
        with _told(missing, f"the CRD {kind.resource}"):
            crd = kubectl.get("customresourcedefinitions", kind.resource)
            yield f"crds/{_file(kind.resource)}", _json(crd)
    by_resource = {
        resource: _made(listed, resource, [owner for _, of_kind in objects for owner in of_kind])
        for resource in _children()
    }
    for resource, children in by_resource.items():
        yield _file(resource), hidden.json(children)
    pods = {_place(pod["metadata"]) for pod in by_resource["pods"]}
    events = [event for kind in kinds for event in listed("events", ABOUT.format(kind.kind))]
    of_pods = listed("events", ABOUT.format("Pod"))
    events += [event for event in of_pods if _place(event.get("involvedObject") or {}) in pods]
    yield "events.json", hidden.json(events)
    with _told(missing, "the operators"):
        for operator in survey.look(kubectl).operators:
            folder = f"operators/{operator.namespace}/{operator.name}"
            yield f"{folder}/deployment.json", hidden.json(operator.deployment)
            yield f"{folder}/pods.json", hidden.json(operator.pods)
            yield f"{folder}/lease.json", hidden.json(operator.lease)
            events = listed("events", within=operator.namespace)
            own = [event for event in events if _is_about(event, operator)]
            yield f"{folder}/events.json", hidden.json(own)
            with contextlib.suppress(KubectlError):  # without OLM there is no such kind
                csvs = Kubectl(kubectl.options, operator.namespace).list(CSV)
                own = [csv for csv in csvs if kinds[0].resource in json.dumps(csv)]
                yield f"{folder}/clusterserviceversions.json", hidden.json(own)
            for name, text in _logs(kubectl, operator, missing):
                yield f"{folder}/logs/{name}.log", hidden.text(text)
    printed = io.StringIO()
    with _told(missing, "doctor"), contextlib.redirect_stdout(printed):
        doctor.report(kubectl, judge)
    yield "doctor.txt", hidden.text(printed.getvalue())


def _children() -> list[str]:
    """Return the resources of what the operator makes for its objects, and their Pods."""
    ours = subject.current()
    own = {kind.resource for kind in ours.kinds}
    created = [
        f"{right.resource}.{right.group}".rstrip(".")
        for right in ours.rights
        if right.verb == "create" and right.resource not in UNSEEN and right.group not in REVIEWS
    ]
    # Not what is part of another, such as pods/eviction, nor `*`.
    return [
        resource
        for resource in dict.fromkeys(["pods", *created])
        if resource not in own and names.is_name(resource)
    ]


def _made(listed: Callable[..., list[Object]], resource: str, owners: list[Object]) -> list[Object]:
    """Return what the operator made for these objects: by its label, or by their ownership."""
    if subject.current().tells:
        return listed(resource, MADE + subject.current().name)
    uids = {owner["metadata"].get("uid") for owner in owners}
    namespaces = sorted({_place(owner["metadata"])[0] for owner in owners} - {""})
    return [
        child
        for namespace in namespaces
        for child in listed(resource, within=namespace)
        if uids & {ref.get("uid") for ref in child["metadata"].get("ownerReferences") or ()}
    ]


def _place(meta: Object) -> tuple[str, str]:
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _file(resource: str) -> str:
    return f"{resource.partition('.')[0]}.json"


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
    body = escaped(text).encode("utf-8", "replace")  # it may be read on a terminal
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(body), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(body))
