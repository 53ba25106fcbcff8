"""Runs the user's own kubectl, which knows the kubeconfig, the login and the proxy.

Names may come from a cluster, where tenants write them. No object has a name that is not valid, so
kubectl is not asked for one; and what is no option stands behind `--`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from kopf_kit.plugin import names, refusals
from kopf_kit.plugin.refusals import Refusal
from kopf_kit.plugin.text import printable

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
        if not names.is_name(name) or not (namespace is None or names.is_namespace(namespace)):
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
            raise KubectlError(refusals.SLOW, message)
        if code:
            raise KubectlError(refusals.refusal(message), message)
        return str(printed)

    def logs(self, pod: str, *flags: str) -> int:
        """Print the log of a Pod with a valid name; return kubectl's exit code.

        On a terminal, without what controls it; elsewhere, as it is.
        """
        command = self._command(["logs", *self._here(), *flags, "--", pod])
        try:
            if not sys.stdout.isatty():
                return subprocess.call(command)
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                for line in process.stdout or ():
                    text = line.decode(errors="replace").removesuffix("\n")
                    print(printable(text.expandtabs()), flush=True)
            return process.returncode
        except FileNotFoundError:
            raise KubectlError(refusals.MISSING) from None

    def watch(self, kind: str, *, everywhere: bool = False) -> Iterator[Object]:
        """Yield the events of the objects of a kind until the API server ends the watch.

        Each is {"type": "ADDED", "object": …}; the existing objects come first.
        """
        where = ["--all-namespaces"] if everywhere else self._here()
        flags = ("--watch", "--output-watch-events", "--output=json")
        with self._start(("get", *where, *flags, "--", kind), False) as process:
            errors = _Errors(process)
            try:
                yield from _documents(process)
                code = process.wait()
            finally:
                process.kill()
                message = errors.end()
        if code:
            raise KubectlError(refusals.refusal(message), message)

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
            raise KubectlError(refusals.MISSING) from None


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


def _documents(process: subprocess.Popen[str]) -> Iterator[Object]:
    """Yield the JSON documents that a process prints one after the other."""
    decoder, buffer = json.JSONDecoder(), ""
    for line in process.stdout or ():
        buffer += line
        if line[:1] not in "}{":  # kubectl indents the lines inside a document
            continue
        try:
            document, end = decoder.raw_decode(buffer.lstrip())
        except ValueError:
            continue
        buffer = buffer.lstrip()[end:]
        yield document
