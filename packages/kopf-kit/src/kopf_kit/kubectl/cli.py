"""What is the same in every plugin's command line, and the exit codes.

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

from kopf_kit.kubectl import subject
from kopf_kit.kubectl.advice import UNKNOWN, Finding, complain
from kopf_kit.kubectl.client import Kubectl, KubectlError
from kopf_kit.kubectl.text import Text

#: Options that are passed on to kubectl.
GLOBAL = ("context", "cluster", "user", "kubeconfig", "as", "as-group", "server", "request-timeout")
MISTAKE = Text(
    "{message}. `kubectl {command} --help` lists the commands.",
    "명령을 이해하지 못했습니다: {message}. `kubectl {command} --help`에 명령 목록이 있습니다.",
)
Command = Callable[[str], argparse.ArgumentParser]


class Parser(argparse.ArgumentParser):
    """Prints our own help, in the user's language, and one line if the command line is wrong."""

    #: The text of --help, of the program and of each command.
    text: Text = Text("", "")

    def format_help(self) -> str:
        """Return our own help."""
        return str(self.text)

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and end with 2."""
        command = subject.current().command
        text = MISTAKE.format(message=message, command=command)
        self.exit(2, f"kubectl {command}: {text}\n")


def parser(help_: Text) -> tuple[argparse.ArgumentParser, Command]:
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


def kubectl(arguments: argparse.Namespace) -> Kubectl:
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
            reconfigure(errors="replace")  # a terminal without Korean shows ? instead
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
        return 0
