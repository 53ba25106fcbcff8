"""The command line of an operator's plugin, and its exit codes.

0  nothing is wrong
1  something is wrong: an object is not ready, or a check fails
2  the command line is wrong
3  there is no answer: no kubectl, no cluster, no right to read, or no such object
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kopf_kit.kubectl import advice, diagnosis, status, subject, support, why
from kopf_kit.kubectl.advice import UNKNOWN, Finding, complain
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.text import Text

#: Options that are passed on to kubectl.
GLOBAL = ("context", "cluster", "user", "kubeconfig", "as", "as-group", "server", "request-timeout")
MISTAKE = Text("{message}. `kubectl {command} --help` lists the commands.")
Command = Callable[[str], argparse.ArgumentParser]


class Parser(argparse.ArgumentParser):
    """Prints our own help, and one line if the command line is wrong."""

    #: The text of --help, of the program and of each command.
    text = ""

    def format_help(self) -> str:
        """Return our own help."""
        return self.text

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and end with 2."""
        command = subject.current().command
        text = MISTAKE.format(message=message, command=command)
        self.exit(2, f"kubectl {command}: {text}\n")


def _parser(help_: str) -> tuple[argparse.ArgumentParser, Command]:
    """Return the parser of a plugin, and what adds a command to it."""
    ours = subject.current()
    Parser.text = help_
    # These options may stand before or after the command. SUPPRESS: one that is missing after the
    # command must not reset the one before it.
    shared = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("-h", "--help", action="help")
    shared.add_argument("-n", "--namespace")
    for name in GLOBAL:
        shared.add_argument(f"--{name}", action="append" if name == "as-group" else "store")
    program = Parser(
        prog=f"kubectl {ours.command}", parents=[shared], add_help=False, allow_abbrev=False
    )
    version = f"kubectl-{ours.command} {ours.version}"
    program.add_argument("--version", action="version", version=version)
    commands = program.add_subparsers(dest="command", parser_class=Parser)

    def command(name: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[shared], add_help=False, allow_abbrev=False)

    return program, command


def _kubectl(arguments: argparse.Namespace) -> Kubectl:
    """Return kubectl with the options of the command line."""
    given: dict[str, Any] = vars(arguments)
    options = [
        f"--{name}={value}"
        for name in GLOBAL
        for value in _values(given.get(name.replace("-", "_")))
    ]
    return Kubectl(options, given.get("namespace"))


def _values(value: Any) -> Sequence[str]:
    return value if isinstance(value, list) else [value] if value is not None else []


def guarded(run: Callable[[], int]) -> int:
    """Run a plugin; return the exit code, also if kubectl refuses something."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal without a character shows ? instead
    try:
        return run()
    except KubectlError as error:
        complain(Finding(UNKNOWN, error.refusal.says, error.refusal.todo, error.said))
        return 3
    except BrokenPipeError:  # the reader, such as `| head`, is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print()
        return 130


HELP = """\
Say how {many} fare, why, and what is wrong with their operator.

Usage: kubectl {command} COMMAND [OPTION ...]

Commands:
  status            all of them at a glance
    -A              of all namespaces
  why [KIND/]NAME   why one is not ready and what to do, with its conditions and Events
  doctor            is the operator installed, ready, leading, allowed; is all served
  explain [REASON]  what a reason or Event means; without one, all of them
  support-bundle    a file for those who help you: no Secrets, no texts; -f FILE.tar.gz

Options, as in kubectl:
  -n, --namespace   where the object is; without it, the current context's namespace
  --context, --kubeconfig, --cluster, --user, --server, --as, --as-group, --request-timeout
  --version, -h, --help

Exit codes:
  0  nothing is wrong           2  the command line is wrong
  1  something is wrong         3  it cannot be told: no kubectl, cluster, right, object, file

NO_COLOR turns the colours off.
Version {version}: {home}
"""


def _run(argv: Sequence[str] | None) -> int:
    ours = subject.current()
    words = {"many": ours.many, "command": ours.command, "version": ours.version, "home": ours.home}
    help_text = HELP.format(**words)
    parser, command = _parser(help_text)
    command("status").add_argument("-A", "--all-namespaces", action="store_true")
    command("why").add_argument("name", metavar="[KIND/]NAME")
    command("doctor")
    command("explain").add_argument("word", nargs="?", metavar="REASON")
    command("support-bundle").add_argument("-f", "--filename", metavar="FILE")
    arguments = parser.parse_args(argv)
    return _command(arguments) if arguments.command else _shown(help_text)


def _command(arguments: argparse.Namespace) -> int:
    kubectl = _kubectl(arguments)
    if arguments.command == "status":
        return status.show(kubectl, everywhere=arguments.all_namespaces)
    if arguments.command == "why":
        return why.of_name(kubectl, arguments.name)
    if arguments.command == "doctor":
        return diagnosis.report(kubectl)
    if arguments.command == "explain":
        return advice.explain(arguments.word) if arguments.word else advice.everything()
    return support.write(kubectl, arguments.filename)


def _shown(help_text: str) -> int:
    print(help_text, end="")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin; return the exit code."""
    return guarded(lambda: _run(argv))


if __name__ == "__main__":
    sys.exit(main())
