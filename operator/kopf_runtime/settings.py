"""What can be set: flags and their environment variables, checked before anything starts.

An operator derives its own `Settings` and adds fields with `flag`. `manager` parses the command
line, or nothing but the environment when kopf's own `kopf run` starts the operator.
"""

import argparse
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from kopf_runtime.syntax import DNS_LABEL, LONG_PREFIX, SELECTOR

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Address = tuple[str, int]  # (host, port); the empty host means all addresses


def _address(text: str) -> Address | None:
    if text == "0":
        return None
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid [HOST]:PORT (for example :8080; 0 disables it)"
        )
    return match[1].strip("[]"), int(match[2])


def at_least(least: float, kind: type[int] | type[float] = float) -> Callable[[str], Any]:
    """Return a parser of numbers that are large enough."""

    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = kind(least - 1)
        if not least <= value < float("inf"):
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {name} of at least {least:g}")
        return value

    return number


def truth(text: str) -> bool:
    """Parse `true` or `false`."""
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not true or false")
    return text.lower() == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that takes one of these words."""

    def choice(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return choice


def _namespaces(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not DNS_LABEL.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is not a valid namespace: 1 to 63 of a-z, 0-9 and '-', "
                "no '-' at either end"
            )
    return names


def _selector(text: str) -> str:
    if text and (LONG_PREFIX.search(text) or not SELECTOR.fullmatch(text)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid label selector; "
            "use for example team=a,stage in (test, live),!paused"
        )
    return text


def flag(
    default: str, meaning: str, parse: Callable[[str], Any] = str, metavar: str = "NAME"
) -> Any:
    """Make a field that a flag of its name sets; the default is written as on a command line."""
    about = {"default": default, "meaning": meaning, "parse": parse, "metavar": metavar}
    return field(default=parse(default), metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The runtime's settings; each field is a flag, and all durations are in seconds."""

    #: The watched namespaces; empty means all of them, clusterwide.
    namespaces: tuple[str, ...] = ()
    #: This replica's name in the Lease and in Events.
    identity: str = "operator"
    namespace_selector: str = flag(
        "", "serve only the namespaces that match this label selector, as in "
        "`kubectl get namespaces -l`; empty: all", _selector, "SELECTOR",
    )  # fmt: skip
    workers: int = flag("16", "reconciles that run at once", at_least(1, int), "N")
    sweep_period: float = flag(
        "300", "seconds between two comparisons with full lists", at_least(1), "SECONDS"
    )
    request_timeout: float = flag(
        "10", "seconds that a request to the API server may take", at_least(1), "SECONDS"
    )
    leader_elect: bool = flag("false", "whether replicas elect a leader by a Lease", truth)
    lease_name: str = flag("", "the Lease's name; empty: the operator's")
    lease_namespace: str = flag("", "the Lease's namespace; empty: the operator's own")
    lease_duration: float = flag(
        "15", "seconds until the others replace a silent leader", at_least(1), "SECONDS"
    )
    lease_renew_deadline: float = flag(
        "10", "seconds until a leader that cannot renew stops", at_least(0.5), "SECONDS"
    )
    lease_retry_period: float = flag(
        "2", "seconds between two attempts at the Lease", at_least(0.1), "SECONDS"
    )
    metrics_bind_address: Address | None = flag(
        ":8080", "where /metrics is served; 0 turns it off", _address, "[HOST]:PORT"
    )
    metrics_cert_path: str = flag(
        "", "folder with tls.crt and tls.key; serves /metrics over HTTPS, only to clients that the "
        "cluster's RBAC allows to `get` it; empty: over HTTP, to everyone", metavar="FOLDER",
    )  # fmt: skip
    health_probe_bind_address: Address | None = flag(
        ":8081", "where /healthz and /readyz are served; 0 turns them off", _address, "[HOST]:PORT"
    )
    log_level: str = flag(
        "info", "debug, info, warning or error", one_of("debug", "info", "warning", "error"),
        "LEVEL",
    )  # fmt: skip
    log_format: str = flag("text", "text or json", one_of("text", "json"), "FORMAT")


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class Program:
    """What `--help` and `--version` say, and what the environment variables begin with."""

    name: str
    version: str
    description: str

    @property
    def prefix(self) -> str:
        """What its environment variables begin with."""
        return self.name.upper().replace("-", "_") + "_"


def _own_namespace(env: Mapping[str, str]) -> str:
    """Return the namespace that this process runs in; `default` outside a cluster."""
    if env.get("POD_NAMESPACE"):
        return env["POD_NAMESPACE"]
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "default"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}\nRun {self.prog} --help for more.\n")


def _add(parser: _Parser, prefix: str, env: Mapping[str, str], setting: Field[Any]) -> None:
    """Add a field's flag; its default is the environment variable's value, else the field's."""
    about, default = setting.metadata, setting.default
    variable = prefix + setting.name.upper()
    if variable in env:
        try:
            default = about["parse"](env[variable])
        except argparse.ArgumentTypeError as error:
            parser.error(f"{variable}: {error}")
    options: dict[str, Any] = {"type": about["parse"], "metavar": about["metavar"]}
    if about["parse"] is truth:
        options = {"type": truth, "nargs": "?", "const": True, "metavar": "true|false"}
    name = "--" + setting.name.replace("_", "-")
    meaning = f"{about['meaning']} (default: {about['default'] or 'none'})".replace("%", "%%")
    parser.add_argument(name, dest=setting.name, default=default, help=meaning, **options)


def _parser(program: Program, kind: type[Settings], env: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog=program.name,
        usage=f"{program.name} [-A | -n NAME ...] [FLAG ...]",
        description=program.description,
        epilog=f"Each flag has an environment variable: --log-level is {program.prefix}LOG_LEVEL. "
        "A flag wins over its variable.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{program.name} {program.version}")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "-n", "--namespace", dest="namespaces", action="extend", type=_namespaces, metavar="NAME",
        help="watch this namespace; may be repeated (WATCH_NAMESPACE: a list with commas)",
    )  # fmt: skip
    scope.add_argument(
        "-A", "--all-namespaces", action="store_true", help="watch all namespaces (the default)"
    )
    for setting in fields(kind):
        if setting.metadata:
            _add(parser, program.prefix, env, setting)
    return parser


def parse(
    program: Program, kind: type[S], argv: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> S:  # fmt: skip
    """Return the settings that a command line and an environment make.

    Print what is wrong, or the help, and raise `SystemExit` where they make none.
    """
    env = os.environ if env is None else env
    parser = _parser(program, kind, env)
    values = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    everywhere = values.pop("all_namespaces")
    if values["namespaces"] is None and not everywhere:
        try:
            values["namespaces"] = _namespaces(env.get("WATCH_NAMESPACE", ""))
        except argparse.ArgumentTypeError as error:
            parser.error(f"WATCH_NAMESPACE: {error}")
    values["namespaces"] = tuple(dict.fromkeys(values["namespaces"] or ()))
    values["identity"] = env.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    values["lease_name"] = values["lease_name"] or program.name
    values["lease_namespace"] = values["lease_namespace"] or _own_namespace(env)
    settings = kind(**values)
    if settings.namespaces and settings.namespace_selector:
        parser.error(
            "--namespace (or WATCH_NAMESPACE) and --namespace-selector are both set; leave one out"
        )
    if not (settings.lease_retry_period < settings.lease_renew_deadline < settings.lease_duration):
        parser.error(
            "the Lease's timings must be in this order: "
            f"--lease-retry-period ({settings.lease_retry_period:g}) < "
            f"--lease-renew-deadline ({settings.lease_renew_deadline:g}) < "
            f"--lease-duration ({settings.lease_duration:g})"
        )
    return settings
