"""What can be set: flags and their environment variables, checked before anything starts.

Called by ``__main__`` with the command line, and by ``handlers`` with nothing but the environment
when kopf's own ``kopf run`` starts the operator. Everybody else is handed a ``Settings``.
"""

import argparse
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from message_operator import __version__

ENV_PREFIX = "MESSAGE_OPERATOR_"
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

Address = tuple[str, int]  # (host, port); the empty host means all addresses


def _address(text: str) -> Address | None:
    if text == "0":
        return None
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no [HOST]:PORT such as :8080, nor 0 for off")
    return match[1].strip("[]"), int(match[2])


def _at_least(least: float, kind: type[int] | type[float] = float) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = kind(least - 1)
        if not least <= value < float("inf"):
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is no {name} of at least {least:g}")
        return value

    return number


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _user(text: str) -> int | None:
    return None if text == "none" else cast("int", _at_least(1, int)(text))


def _one_of(*choices: str) -> Callable[[str], str]:
    def choice(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return choice


def _secrets(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not SUBDOMAIN.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is no Secret's name: a-z, 0-9, '-' and '.', no '-' or '.' at either end"
            )
    return tuple(names)


def _namespaces(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not DNS_LABEL.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is no namespace: 1 to 63 of a-z, 0-9 and '-', no '-' at either end"
            )
    return names


def _flag(
    default: str, meaning: str, parse: Callable[[str], Any] = str, metavar: str = "NAME"
) -> Any:
    """Make a field that a flag of its name sets; the default is written as on a command line."""
    about = {"default": default, "meaning": meaning, "parse": parse, "metavar": metavar}
    return field(default=parse(default), metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings; each field is a flag, and all durations are in seconds."""

    #: The watched namespaces; empty means all of them, clusterwide.
    namespaces: tuple[str, ...] = ()
    #: This replica's name in the Lease and in Events.
    identity: str = "message-operator"
    workers: int = _flag("16", "reconciles that run at once", _at_least(1, int), "N")
    sweep_period: float = _flag(
        "300", "seconds between two comparisons with full lists", _at_least(1), "SECONDS"
    )
    request_timeout: float = _flag(
        "10", "seconds that a request to the API server may take", _at_least(1), "SECONDS"
    )
    message_image: str = _flag(
        "docker.io/library/busybox:1.37", "the message Pods' image: a BusyBox", metavar="IMAGE"
    )
    message_pull_policy: str = _flag(
        "IfNotPresent", "when the message Pods' image is pulled: Always, IfNotPresent or Never",
        _one_of("Always", "IfNotPresent", "Never"), "POLICY",
    )  # fmt: skip
    message_pull_secrets: tuple[str, ...] = _flag(
        "", "Secrets in the Messages' namespaces to pull that image with: a list with commas",
        _secrets, "NAMES",
    )  # fmt: skip
    message_user: int | None = _flag(
        "65532", "the message Pods' numeric user; 'none' leaves it to the platform", _user, "UID"
    )
    leader_elect: bool = _flag("false", "whether replicas elect a leader by a Lease", _truth)
    lease_name: str = _flag("message-operator", "the Lease's name")
    lease_namespace: str = _flag("", "the Lease's namespace; empty: the operator's own")
    lease_duration: float = _flag(
        "15", "seconds until the others replace a silent leader", _at_least(1), "SECONDS"
    )
    lease_renew_deadline: float = _flag(
        "10", "seconds until a leader that cannot renew stops", _at_least(0.5), "SECONDS"
    )
    lease_retry_period: float = _flag(
        "2", "seconds between two tries for the Lease", _at_least(0.1), "SECONDS"
    )
    metrics_bind_address: Address | None = _flag(
        ":8080", "where /metrics is served; 0 turns it off", _address, "[HOST]:PORT"
    )
    health_probe_bind_address: Address | None = _flag(
        ":8081", "where /healthz and /readyz are served; 0 turns them off", _address, "[HOST]:PORT"
    )
    log_level: str = _flag(
        "info", "debug, info, warning or error", _one_of("debug", "info", "warning", "error"),
        "LEVEL",
    )  # fmt: skip
    log_format: str = _flag("text", "text or json", _one_of("text", "json"), "FORMAT")


def _own_namespace(env: Mapping[str, str]) -> str:
    """Tell the namespace that this process runs in; ``default`` outside a cluster."""
    if env.get("POD_NAMESPACE"):
        return env["POD_NAMESPACE"]
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "default"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(2, f"message-operator: {message}\nmessage-operator --help tells more.\n")


def _add(parser: _Parser, env: Mapping[str, str], setting: Field[Any]) -> None:
    """Add a field's flag; its default is the environment variable's value, else the field's."""
    about, default = setting.metadata, setting.default
    variable = ENV_PREFIX + setting.name.upper()
    if variable in env:
        try:
            default = about["parse"](env[variable])
        except argparse.ArgumentTypeError as error:
            parser.error(f"{variable}: {error}")
    options: dict[str, Any] = {"type": about["parse"], "metavar": about["metavar"]}
    if about["parse"] is _truth:
        options = {"type": _truth, "nargs": "?", "const": True, "metavar": "true|false"}
    flag = "--" + setting.name.replace("_", "-")
    meaning = f"{about['meaning']} (default: {about['default'] or 'none'})"
    parser.add_argument(flag, dest=setting.name, default=default, help=meaning, **options)


def _parser(env: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog="message-operator",
        usage="message-operator [-A | -n NAME ...] [FLAG ...]",
        description="Turns every Message into a Pod that prints it.",
        epilog=f"Each flag has an environment variable: --log-level is {ENV_PREFIX}LOG_LEVEL. "
        "A flag wins over its variable.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"message-operator {__version__}")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "-n", "--namespace", dest="namespaces", action="extend", type=_namespaces, metavar="NAME",
        help="watch this namespace; may be repeated (WATCH_NAMESPACE: a list with commas)",
    )  # fmt: skip
    scope.add_argument(
        "-A", "--all-namespaces", action="store_true", help="watch all namespaces (the default)"
    )
    for setting in fields(Settings):
        if setting.metadata:
            _add(parser, env, setting)
    return parser


def parse(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Make the Settings of a command line and an environment.

    Prints what is wrong, or the help, and raises ``SystemExit`` where they make none.
    """
    env = os.environ if env is None else env
    parser = _parser(env)
    found = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    everywhere = found.pop("all_namespaces")
    if found["namespaces"] is None and not everywhere:
        try:
            found["namespaces"] = _namespaces(env.get("WATCH_NAMESPACE", ""))
        except argparse.ArgumentTypeError as error:
            parser.error(f"WATCH_NAMESPACE: {error}")
    found["namespaces"] = tuple(dict.fromkeys(found["namespaces"] or ()))
    found["identity"] = env.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    found["lease_namespace"] = found["lease_namespace"] or _own_namespace(env)
    settings = Settings(**found)
    if not (settings.lease_retry_period < settings.lease_renew_deadline < settings.lease_duration):
        parser.error(
            "the Lease's timings must grow: "
            f"--lease-retry-period ({settings.lease_retry_period:g}) < "
            f"--lease-renew-deadline ({settings.lease_renew_deadline:g}) < "
            f"--lease-duration ({settings.lease_duration:g})"
        )
    return settings
