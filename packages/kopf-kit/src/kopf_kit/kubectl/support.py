"""`kubectl NAME support-bundle`: collects in one file what a maintainer needs to help.

It asks for no Secret. What cannot be read is named in the file, and the rest is collected. What
users wrote is hidden: a text in an object's spec stays only if the operator's own schema says what
it may be, by an enum, a pattern or a format (`Kind.shown`). Every other one is hidden, there and
wherever something quotes it. So a field that is new or unknown is hidden, too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kopf_kit.kubectl import client, diagnosis, subject, survey
from kopf_kit.kubectl.advice import FAILS, Finding, complain
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.subject import Kind
from kopf_kit.kubectl.survey import Operator
from kopf_kit.kubectl.text import Text, escaped

Object = dict[str, Any]

#: What stands in the place of what is hidden.
HIDDEN = "<hidden>"
#: Texts with fewer characters than this are hidden where they are a field of their own, but not
#: where something quotes them: they cannot be told from other words.
_QUOTED = 6
#: What may repeat a whole object.
_COPIES = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
#: Variables that the chart and OLM set; others are an administrator's and may hold a password.
_VARIABLES = ("POD_", "OPERATOR_CONDITION_NAME", "WATCH_NAMESPACE")
#: The domains of annotations that programs write; what users write in others is hidden.
_DOMAINS = ("kubernetes.io", "k8s.io", "helm.sh", "operatorframework.io")
#: Fields with names, which are told: no text is looked for in them.
_NAMES = ("apiVersion", "kind", "name", "namespace", "uid", "labels", "ownerReferences")
#: The fields of a ConfigMap with users' data.
_DATA = ("data", "binaryData", "stringData")
#: A login in a URL, a bearer token, a JSON Web Token, a private key.
_SECRETS = re.compile(
    r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)|(?<=bearer )[\w.~+/-]+=*|(?<![\w-])eyJ[\w-]+\.[\w.-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(-----END [A-Z ]*-----)?",
    re.IGNORECASE,
)


class Redaction:
    """Hides the texts in the specs of these objects."""

    def __init__(self, objects: list[tuple[Kind, list[Object]]]) -> None:
        #: All texts by their beginning, as they are and as JSON and Go quote them.
        self._texts: dict[str, set[str]] = defaultdict(set)
        metas = [manifest["metadata"] for _, of_kind in objects for manifest in of_kind]
        names = {meta.get(part) for meta in metas for part in ("name", "namespace")}
        for kind, of_kind in objects:
            for manifest in of_kind:
                for text in {*_free(manifest.get("spec"), kind.shown)} - names:
                    self._hide(text)

    def _hide(self, text: str) -> None:
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            if len(form) >= _QUOTED:
                self._texts[form[:_QUOTED]].add(form)

    def json(self, value: object) -> str:
        """Return objects as JSON, without what users wrote."""
        return json.dumps(self._of(value), indent=2, ensure_ascii=False) + "\n"

    def own(self, kind: Kind, objects: list[Object]) -> str:
        """Return objects of a kind of the operator's as JSON, without what users wrote."""
        return self.json(
            [{**item, "spec": _cleared(item.get("spec"), kind.shown)} for item in objects]
        )

    def text(self, text: str) -> str:
        """Return a text in which each text of a user's, or its beginning, is hidden."""
        text = _SECRETS.sub(HIDDEN, text)
        if not self._texts:
            return text
        done, at = [], 0
        while at < len(text):
            begun = self._texts.get(text[at : at + _QUOTED])
            if begun:
                done.append(HIDDEN)
                at += max(_common(text, at, form) for form in begun)
            else:
                done.append(text[at])
                at += 1
        return "".join(done)

    def _of(self, value: object) -> object:
        if isinstance(value, dict):
            parts = {key: part for key, part in value.items() if key not in _COPIES}
            if isinstance(value.get("metadata"), dict):  # it may be a ConfigMap
                parts.update({key: _cleared(parts[key], {}) for key in _DATA if key in parts})
            return {key: self._field(key, part) for key, part in parts.items()}
        if isinstance(value, list):
            return [self._of(part) for part in value]
        return self.text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: object) -> object:
        if key in _NAMES:
            return value
        if key == "env" and isinstance(value, list):
            return [self._variable(variable) for variable in value]
        if key == "annotations" and isinstance(value, dict):
            return {
                name: self._of(text) if _is_a_programs(name) else HIDDEN
                for name, text in value.items()
                if name not in _COPIES
            }
        return self._of(value)

    def _variable(self, variable: Object) -> object:
        ours = (subject.current().variables, *_VARIABLES)
        if "value" not in variable or str(variable.get("name")).startswith(ours):
            return self._of(variable)
        return {**variable, "value": HIDDEN}


def _is_a_programs(annotation: str) -> bool:
    domain = annotation.rpartition("/")[0]
    ours = {kind.resource.partition(".")[2] for kind in subject.current().kinds}
    return domain in ours or any(f".{domain}".endswith(f".{suffix}") for suffix in _DOMAINS)


def _within(shown: Any, key: str) -> Any:
    """Return what is shown of a field, or of each value of a map."""
    return shown.get(key, shown.get("*", {})) if isinstance(shown, dict) else {}


def _cleared(value: Any, shown: Any) -> Any:
    """Return a value without the texts that are not shown."""
    if isinstance(value, dict):
        return {key: _cleared(part, _within(shown, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_cleared(part, shown) for part in value]
    return HIDDEN if isinstance(value, str) and shown is not True else value


def _free(value: Any, shown: Any) -> Iterator[str]:
    """Yield the texts that are not shown."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _free(part, _within(shown, key))
    elif isinstance(value, list):
        for part in value:
            yield from _free(part, shown)
    elif isinstance(value, str) and shown is not True:
        yield value


def _common(text: str, at: int, form: str) -> int:
    """Return how many characters of a form stand at a place of a text."""
    end = _QUOTED
    while end < len(form) and text[at + end : at + end + 1] == form[end]:
        end += 1
    return end


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
#: Has the first process of a container log what each of its workers does, if it takes the signal:
#: any other one would end.
TELL = """
import os, re, signal
caught = re.search(r"SigCgt:\\s*(\\w+)", open("/proc/{pid}/status").read())
if caught and int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1:
    os.kill({pid}, signal.SIGUSR1)
"""

WRITTEN = Text(
    "{file} is written. It has no Secrets, and the texts in {many} are hidden, but it has names, "
    "such as those of namespaces, nodes and users: look through it before you send it."
)
PARTLY = Text("What could not be read: {what}.")
REFUSED = Text("{file} cannot be written")
ELSEWHERE = Text("Name another file: `-f FILE.tar.gz`. A file that exists is not overwritten.")


class Missing(NamedTuple):
    """What could not be read, and what kubectl said."""

    what: str
    why: str


def write(kubectl: Kubectl, file: str | None) -> int:
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
        for name, text in _collected(kubectl, missing):
            _add(archive, f"{title}/{name}", text)
        lines = "".join(f"{part.what}: {part.why}\n" for part in missing)
        _add(archive, f"{title}/missing.txt", lines)
    print(WRITTEN.format(file=path, many=ours.many))
    if missing:
        print(PARTLY.format(what=", ".join(part.what for part in missing)))
    return 0


def _collected(kubectl: Kubectl, missing: list[Missing]) -> Iterator[tuple[str, str]]:
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
            if subject.current().tells:
                _have_told(kubectl, operator, missing)
            for name, text in _logs(kubectl, operator, missing):
                yield f"{folder}/logs/{name}.log", hidden.text(text)
    printed = io.StringIO()
    with _told(missing, "doctor"), contextlib.redirect_stdout(printed):
        diagnosis.report(kubectl)
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
        if resource not in own and client.is_name(resource)
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
            if not (client.is_name(name) and client.is_name(container["name"])):
                continue
            former = ["--previous"] if container.get("restartCount") else []
            for flag in ["", *former]:
                flags = [where, f"--container={container['name']}", *LOGS, *[flag] * bool(flag)]
                title = f"{name}.{container['name']}{flag.replace('--', '.')}"
                with _told(missing, f"the log {title}"):
                    yield title, kubectl.ask("logs", *flags, "--", name)


def _have_told(kubectl: Kubectl, operator: Operator, missing: list[Missing]) -> None:
    """Have each replica log what its workers do now."""
    where = f"--namespace={operator.namespace}"
    own = operator.deployment["spec"]["template"]["spec"]["containers"][0]  # a Pod may have more
    for pod in operator.pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        container = own.get("name")
        running = status.get("phase") == "Running"
        if running and client.is_name(name) and client.is_name(container):
            program = ("python3", "-c", TELL.format(pid=1))
            with _told(missing, f"what the workers of {name} do"):
                kubectl.ask("exec", where, f"--container={container}", name, "--", *program)


@contextlib.contextmanager
def _told(missing: list[Missing], what: str) -> Iterator[None]:
    """Add to `missing` what kubectl refuses during the block."""
    try:
        yield
    except KubectlError as error:
        missing.append(Missing(what, error.said or error.refusal.says))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    body = escaped(text).encode("utf-8", "replace")  # it may be read on a terminal
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(body), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(body))
