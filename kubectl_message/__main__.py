"""The command line of `kubectl message`, and its exit codes.

0  nothing is wrong
1  something is wrong: the Message does not print, or a check fails
2  the command line is wrong
3  there is no answer: no kubectl, no cluster, no right to read, or no such Message
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from kubectl_message import doctor, explain, status, support, why
from kubectl_message.findings import UNKNOWN, Finding, complain
from kubectl_message.help import HELP, MISTAKE
from kubectl_message.kubectl import Kubectl, KubectlError
from kubectl_message.messages import CONTAINER, KIND, state
from kubectl_message.version import VERSION

#: Options that are passed on to kubectl.
GLOBAL = ("context", "cluster", "user", "kubeconfig", "as", "as-group", "server", "request-timeout")


class _Parser(argparse.ArgumentParser):
    """Prints our own help, in the user's language, and one line if the command line is wrong."""

    def format_help(self) -> str:
        return str(HELP)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"kubectl message: {MISTAKE.format(message=message)}\n")


def _parser() -> _Parser:
    # These options may stand before or after the command. SUPPRESS: one that is missing after the
    # command must not reset the one before it.
    shared = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("-h", "--help", action="help")
    shared.add_argument("-n", "--namespace")
    for name in GLOBAL:
        shared.add_argument(f"--{name}", action="append" if name == "as-group" else "store")
    parser = _Parser(prog="kubectl message", parents=[shared], add_help=False, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"kubectl-message {VERSION}")
    commands = parser.add_subparsers(dest="command", parser_class=_Parser)

    def command(name: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[shared], add_help=False, allow_abbrev=False)

    one = command("status")
    one.add_argument("-A", "--all-namespaces", action="store_true")
    form = one.add_mutually_exclusive_group()
    form.add_argument("-w", "--watch", action="store_true")
    form.add_argument("-o", "--output", choices=["json"])
    one = command("why")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME")
    which.add_argument("-f", "--filename", metavar="FILE")
    one = command("logs")
    one.add_argument("name", metavar="NAME")
    for short, name in (("-f", "follow"), ("-p", "previous"), ("-t", "timestamps")):
        one.add_argument(short, f"--{name}", action="store_true")
    for name in ("tail", "since"):
        one.add_argument(f"--{name}")
    command("doctor")
    command("support-bundle").add_argument("-f", "--filename", metavar="FILE")
    one = command("explain")
    one.add_argument("word", nargs="?", metavar="REASON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the command of the command line; return the exit code, or raise `KubectlError`."""
    kubectl = Kubectl(_options(arguments), getattr(arguments, "namespace", None))
    if arguments.command == "status":
        if arguments.watch:
            return status.live(kubectl, everywhere=arguments.all_namespaces)
        as_json = arguments.output == "json"
        return status.show(kubectl, everywhere=arguments.all_namespaces, as_json=as_json)
    if arguments.command == "why":
        if arguments.filename:
            return why.of_file(kubectl, arguments.filename)
        return why.of_name(kubectl, arguments.name)
    if arguments.command == "logs":
        return _log(kubectl, arguments.name, _flags(arguments))
    if arguments.command == "doctor":
        return doctor.report(kubectl)
    if arguments.command == "support-bundle":
        return support.write(kubectl, arguments.filename)
    if arguments.command == "explain":
        return explain.one(arguments.word) if arguments.word else explain.everything()
    print(HELP, end="")
    return 0


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options for kubectl."""
    given: dict[str, Any] = vars(arguments)
    return [
        f"--{name}={value}"
        for name in GLOBAL
        for value in _values(given.get(name.replace("-", "_")))
    ]


def _values(value: Any) -> Sequence[str]:
    return value if isinstance(value, list) else [value] if value is not None else []


def _log(kubectl: Kubectl, name: str, flags: Sequence[str]) -> int:
    """Print the log of a Message's Pod, or on stderr why it is missing; return the exit code."""
    message = kubectl.get(KIND, name)
    if message is None:
        return why.of_name(kubectl, name)
    now = state(message)
    code = kubectl.logs(now.pod, f"--container={CONTAINER}", *flags)
    if code == 0 and now.prints:  # without a node, kubectl prints nothing and succeeds
        return 0
    with contextlib.redirect_stdout(sys.stderr):
        why.of_name(kubectl, name)
    return 1


def _flags(arguments: argparse.Namespace) -> list[str]:
    """Return the flags of `kubectl logs`."""
    switches = [
        f"--{name}" for name in ("follow", "previous", "timestamps") if getattr(arguments, name)
    ]
    values = [f"--{name}={getattr(arguments, name)}" for name in ("tail", "since")]
    return switches + [value for value in values if not value.endswith("=None")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal without Korean shows ? instead
    try:
        return run(_parser().parse_args(argv))
    except KubectlError as error:
        complain(Finding(UNKNOWN, error.refusal.says, error.refusal.todo, error.said))
        return 3
    except BrokenPipeError:  # the reader, such as `| head`, is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print()
        return 0


if __name__ == "__main__":
    sys.exit(main())
