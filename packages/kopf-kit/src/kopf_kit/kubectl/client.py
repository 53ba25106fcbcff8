"""Runs the user's own kubectl, which knows the kubeconfig, the login and the proxy.

Everything that is read from a cluster may have been written by a tenant: a flag of a Deployment, a
field of a status. Names that are not valid in Kubernetes never reach kubectl or a command that the
user is advised to run; and what is no option stands behind `--`.
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from kopf_kit.kubectl import subject
from kopf_kit.kubectl.subject import Right
from kopf_kit.kubectl.text import Text, printable

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"({_LABEL}(\.{_LABEL})*/)?{_VALUE}"
#: A requirement of a label selector: `key`, `!key`, `key=value`, `key in (a,b)`.
_REQUIREMENT = re.compile(
    rf" *(! *{_KEY}|{_KEY}( *(=|==|!=) *({_VALUE})?"
    rf"| +(in|notin) *\( *({_VALUE})?( *, *({_VALUE})?)* *\))?) *"
)
#: The longest namespace, name, and selector; the last is our own limit.
_NAMESPACE_SIZE, _NAME_SIZE, _SELECTOR_SIZE = 63, 253, 1024


def is_namespace(text: object) -> bool:
    """Return whether it is a name of a namespace, a DNS-1123 label."""
    return _is(text, _NAMESPACE, _NAMESPACE_SIZE)


def is_name(text: object) -> bool:
    """Return whether it is a name of an object, a DNS-1123 subdomain."""
    return _is(text, _NAME, _NAME_SIZE)


def is_selector(text: object) -> bool:
    """Return whether it is a label selector."""
    if not isinstance(text, str) or len(text) > _SELECTOR_SIZE:
        return False
    return all(_REQUIREMENT.fullmatch(part) for part in re.split(r",(?![^(]*\))", text))


def _is(text: object, pattern: re.Pattern[str], size: int) -> bool:
    return isinstance(text, str) and len(text) <= size and bool(pattern.fullmatch(text))


class Refusal(NamedTuple):
    """One way in which kubectl fails."""

    key: str
    #: A pattern of kubectl's output.
    pattern: str
    says: Text
    todo: Text


MISSING = Refusal(
    "missing",
    r"^$",
    Text("kubectl is not installed."),
    Text("Install it, or put it on the PATH: https://kubernetes.io/docs/tasks/tools/"),
)
SLOW = Refusal(
    "slow",
    r"^$",
    Text("kubectl has not answered in time."),
    Text("Is the cluster reachable? Try: kubectl get --raw /readyz"),
)
OTHER = Refusal("other", r"", Text("kubectl has failed."), Text("What it says is below."))
#: The first one whose pattern matches is used; of a login and the like, kubectl itself says enough.
REFUSALS = (
    Refusal(
        "no-kind",
        r"doesn't have a resource type|no matches for kind|could not find the requested resource",
        Text("The cluster does not know the kind {kind}: its CRD is missing."),
        Text(
            "Install the operator's chart with crds.install=true, or apply crds.yaml of a release. "
            "Is it the right cluster? kubectl config current-context"
        ),
    ),
    Refusal(
        "forbidden",
        r"\(Forbidden\)",
        Text("The cluster does not allow you to look."),
        Text(
            "Ask an administrator for the ClusterRole {crd}-view in your namespace, "
            "or name a namespace that you may read: -n NAMESPACE"
        ),
    ),
    Refusal(
        "not-found",
        r"\(NotFound\)",
        Text("What you asked for is not there."),
        Text("Check the name and the namespace."),
    ),
)


def refusal(message: str) -> Refusal:
    """Return the cause of a failure of kubectl with this output."""
    return _filled(next((case for case in REFUSALS if re.search(case.pattern, message)), OTHER))


def _filled(refusal: Refusal) -> Refusal:
    """Return a refusal whose sentences name the kind."""
    kind = subject.current().kinds[0]
    words = {"kind": kind.kind, "crd": kind.resource}
    return refusal._replace(says=refusal.says.format(**words), todo=refusal.todo.format(**words))


Object = dict[str, Any]

#: Timeout of a command in seconds.
PATIENCE = 60.0
#: Seconds after which kubectl's stderr is shown while it runs: it may ask for a login.
SILENT = 3.0
#: Number of lines that are quoted from kubectl's error.
_LINES = 6


class KubectlError(Exception):
    """kubectl failed; this says why, and what it printed."""

    def __init__(self, refusal: Refusal, said: str = "") -> None:
        super().__init__(said)
        self.refusal, self.said = refusal, said

    @property
    def key(self) -> str:
        """The keyword of the cause."""
        return self.refusal.key


class ForbiddenError(KubectlError):
    """The user may not look: a command tells what it knows without it."""


class Kubectl:
    """kubectl with the options that the user gave, such as --context."""

    def __init__(self, options: Sequence[str] = (), namespace: str | None = None) -> None:
        self.options = [*options]
        self.namespace = namespace

    def list(self, kind: str, *arguments: str, everywhere: bool = False) -> list[Object]:
        """Return the objects of a kind in this namespace or in all; raise `KubectlError`."""
        where = ["--all-namespaces"] if everywhere else self._here()
        printed = self.ask("get", *where, *arguments, "--output=json", "--", kind)
        items: list[Object] = json.loads(printed)["items"]
        return items

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, or None if it does not exist; raise `KubectlError`."""
        if not is_name(name) or not (namespace is None or is_namespace(namespace)):
            return None
        where = [f"--namespace={namespace}"] if namespace else self._here()
        printed = self.ask("get", *where, "--ignore-not-found", "--output=json", "--", kind, name)
        return dict(json.loads(printed)) if printed.strip() else None

    def here(self) -> str:
        """Return the name of the default namespace; raise `KubectlError`."""
        if self.namespace:
            return self.namespace
        path = "--output=jsonpath={.contexts[0].context.namespace}"
        return self.ask("config", "view", "--minify", path).strip() or "default"

    def ask(self, *arguments: str, send: Object | None = None) -> str:
        """Run kubectl and return its output; raise `KubectlError`."""
        body = None if send is None else json.dumps(send)
        with self._start(arguments, body is not None) as process:
            errors = _Errors(process)
            timer = threading.Timer(PATIENCE, process.kill)
            timer.start()
            try:
                if body is not None and process.stdin is not None:
                    process.stdin.write(body)
                    process.stdin.close()
                printed = process.stdout.read() if process.stdout else ""
                code = process.wait()
                late = not timer.is_alive()
            finally:
                timer.cancel()
                message = errors.end()
        if code and late:
            raise KubectlError(SLOW, message)
        if code:
            cause = refusal(message)
            raise (ForbiddenError if cause.key == "forbidden" else KubectlError)(cause, message)
        return str(printed)

    def _here(self) -> Sequence[str]:
        return [f"--namespace={self.namespace}"] if self.namespace else []

    def _command(self, arguments: Sequence[str]) -> Sequence[str]:
        return ["kubectl", *self.options, *arguments]

    def _start(self, arguments: Sequence[str], sends: bool) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                self._command(arguments),
                stdin=subprocess.PIPE if sends else None,  # a login may ask for a password
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except FileNotFoundError:
            raise KubectlError(MISSING) from None


class _Errors:
    """Collects a process's stderr, and also shows it if the process takes long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._shown = 0
        self._lock = threading.Lock()
        self._late = threading.Event()
        self._timer = threading.Timer(SILENT, self._show)
        self._timer.daemon = True
        self._timer.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._lines.append(line)
            if self._late.is_set():
                self._show()

    def _show(self) -> None:
        self._late.set()
        with self._lock:
            sys.stderr.writelines(
                f"{printable(line.rstrip())}\n" for line in self._lines[self._shown :]
            )
            sys.stderr.flush()
            self._shown = len(self._lines)

    def end(self) -> str:
        """Return the last lines, without klog's lines that repeat them."""
        self._timer.cancel()
        self._reader.join(1.0)
        lines = [line.strip() for line in self._lines if line.strip()]
        plain = [line for line in lines if not line[:5].removeprefix("E").isdigit()]
        return "\n".join((plain or lines)[-_LINES:])


class Question(NamedTuple):
    """Whether an account has a right, in a namespace or in all, to an object or to all."""

    account: str
    right: Right
    namespace: str = ""
    name: str = ""


#: The largest number of questions to a kubectl: it sends so many requests without a pause.
BATCH = 300


def answers(kubectl: Kubectl, questions: list[Question]) -> list[bool]:
    """Return the API server's answers; raise `KubectlError`."""
    allowed: list[bool] = []
    flags = ("--validate=false", "--output=json", "--filename=-")
    for start in range(0, len(questions), BATCH):
        reviews = [_review(*question) for question in questions[start : start + BATCH]]
        printed = kubectl.ask(
            "create", *flags, send={"apiVersion": "v1", "kind": "List", "items": reviews}
        )
        allowed += [bool(answer["status"].get("allowed")) for answer in _documents(printed)]
    return allowed


def _review(user: str, right: Right, namespace: str, name: str) -> Object:
    resource, _, sub = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "verb": right.verb,
        "namespace": namespace,
        "name": name,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        },
    }


def _documents(printed: str) -> list[Object]:
    """Return the JSON documents in kubectl's output: one after the other, or in one List."""
    documents: list[Object] = []
    decoder, rest = json.JSONDecoder(), printed.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents += document["items"] if document.get("kind") == "List" else [document]
        rest = rest[end:].strip()
    return documents
