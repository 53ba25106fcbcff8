"""The command line of `kubectl message`; `kopf_kit.kubectl.cli` has its exit codes."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from kopf_kit.kubectl import cli, subject, support
from kopf_kit.kubectl import diagnosis as common
from kopf_kit.kubectl import why as common_why
from kopf_kit.kubectl.client import Kubectl
from kopf_kit.kubectl.text import Text
from kubectl_message import doctor, explain, status, why
from kubectl_message.help import HELP
from kubectl_message.messages import CONTAINER, KIND, state


def _run(argv: Sequence[str] | None) -> int:
    help_text = Text(*(text.format(version=subject.current().version) for text in HELP))
    arguments = _parser(help_text).parse_args(argv)
    if arguments.command:
        return _command(arguments)
    print(help_text, end="")
    return 0


def _parser(help_text: Text) -> argparse.ArgumentParser:
    parser, command = cli.parser(help_text)
    subparser = command("status")
    subparser.add_argument("-A", "--all-namespaces", action="store_true")
    form = subparser.add_mutually_exclusive_group()
    form.add_argument("-w", "--watch", action="store_true")
    form.add_argument("-o", "--output", choices=["json"])
    subparser = command("why")
    which = subparser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME")
    which.add_argument("-f", "--filename", metavar="FILE")
    subparser = command("logs")
    subparser.add_argument("name", metavar="NAME")
    for short, name in (("-f", "follow"), ("-p", "previous"), ("-t", "timestamps")):
        subparser.add_argument(short, f"--{name}", action="store_true")
    for name in ("tail", "since"):
        subparser.add_argument(f"--{name}")
    command("doctor")
    command("support-bundle").add_argument("-f", "--filename", metavar="FILE")
    subparser = command("explain")
    subparser.add_argument("word", nargs="?", metavar="REASON")
    return parser


def _command(arguments: argparse.Namespace) -> int:
    """Run the command of the command line; return the exit code, or raise `KubectlError`."""
    kubectl = cli.kubectl(arguments)
    if arguments.command == "status":
        if arguments.watch:
            return status.live(kubectl, everywhere=arguments.all_namespaces)
        as_json = arguments.output == "json"
        return status.show(kubectl, everywhere=arguments.all_namespaces, as_json=as_json)
    if arguments.command == "why":
        if arguments.filename:
            return common_why.of_file(kubectl, arguments.filename)
        return why.of_name(kubectl, arguments.name)
    if arguments.command == "logs":
        return _log(kubectl, arguments.name, _flags(arguments))
    if arguments.command == "doctor":
        return common.report(kubectl, doctor.fare)
    if arguments.command == "support-bundle":
        return support.write(kubectl, arguments.filename, doctor.fare)
    return explain.one(arguments.word) if arguments.word else explain.everything()


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
    return cli.guarded(lambda: _run(argv))


if __name__ == "__main__":
    sys.exit(main())
