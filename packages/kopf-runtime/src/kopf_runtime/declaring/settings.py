"""Settings: flags and their environment variables, which are checked before anything starts.

An operator derives its own `Settings` and adds fields with `flag`. `manager` parses the command
line, or only the environment if `kopf run` starts the operator. They are argparse's: with click, an
error that names the variable, and a given environment, would take more code.
"""

import argparse
import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kopf_runtime.declaring import parsers
from kopf_runtime.declaring.parsers import Address, at_least, boolean, one_of

logger = logging.getLogger(__name__)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def flag(
    default: str, meaning: str, parse: Callable[[str], Any] = str, metavar: str = "NAME"
) -> Any:
    """Return a field that the flag of its name sets.

    `default` is a text, as on a command line, and `meaning` its line in `--help`, which shows
    `metavar` as the value. `parse` makes the value of a text, and raises
    `argparse.ArgumentTypeError` with what is wrong.
    """
    about = {"default": default, "meaning": meaning, "parse": parse, "metavar": metavar}
    return field(default=parse(default), metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The runtime's settings; each field is a flag, and all durations are in seconds."""

    #: The watched namespaces; empty means all of them.
    namespaces: tuple[str, ...] = ()
    #: Whether to print what one pass would change, and end.
    dry_run: bool = False
    #: This replica's name in the Lease and in Events.
    identity: str = "operator"
    #: The namespace of this process.
    own_namespace: str = "default"
    #: The uid of its Pod; empty outside a cluster.
    pod_uid: str = ""
    namespace_selector: str = flag(
        "",
        "serve only the namespaces that match this label selector, as in "
        "`kubectl get namespaces -l`; empty: all",
        parsers.selector,
        "SELECTOR",
    )
    workers: int = flag("16", "reconciles that run at once", at_least(1, int, most=1000), "N")
    resync_period: float = flag(
        "300",
        "seconds between two comparisons with full lists; a standby compares every twelfth time",
        at_least(1),
        "SECONDS",
    )
    request_timeout: float = flag(
        "10", "seconds that a request to the API server may take", at_least(1, most=3600), "SECONDS"
    )
    leader_elect: bool = flag("false", "whether replicas elect a leader by a Lease", boolean)
    lease_name: str = flag("", "the Lease's name; empty: the operator's", parsers.object_name)
    lease_namespace: str = flag(
        "", "the Lease's namespace; empty: the operator's own", parsers.namespace
    )
    lease_duration: float = flag(
        "15", "seconds until the others replace a silent leader", at_least(1, most=3600), "SECONDS"
    )
    lease_renew_deadline: float = flag(
        "10", "seconds until a leader that cannot renew stops", at_least(0.5), "SECONDS"
    )
    lease_retry_period: float = flag(
        "2",
        "seconds between two renewals of the Lease; a standby looks twice as often",
        at_least(0.1),
        "SECONDS",
    )
    metrics_bind_address: Address | None = flag(
        ":8080", "where /metrics is served; 0 turns it off", parsers.address, "[HOST]:PORT"
    )
    metrics_cert_path: str = flag(
        "",
        "folder with tls.crt and tls.key; serves /metrics over HTTPS, only to clients that the "
        "cluster's RBAC allows to `get` it; empty: over HTTP, to everyone",
        metavar="FOLDER",
    )
    health_probe_bind_address: Address | None = flag(
        ":8081",
        "where /healthz and /readyz are served; 0 turns them off",
        parsers.address,
        "[HOST]:PORT",
    )
    webhook_bind_address: Address | None = flag(
        ":9443",
        "where webhooks are served over HTTPS, if the operator has some; 0 turns them off",
        parsers.address,
        "[HOST]:PORT",
    )
    webhook_cert_path: str = flag(
        "", "folder with tls.crt and tls.key for the webhooks", metavar="FOLDER"
    )
    webhook_secret: str = flag(
        "",
        "Secret in the operator's namespace in which it keeps and rotates the webhooks' "
        "certificate itself",
        parsers.object_name,
    )
    webhook_service: str = flag(
        "",
        "Service by which the API server asks the webhooks; for --webhook-secret",
        parsers.object_name,
    )
    webhook_configuration: str = flag(
        "",
        "name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration that "
        "are to trust the certificate of --webhook-secret",
        parsers.object_name,
    )
    migrate_storage: bool = flag(
        "false", "whether the leader rewrites what is stored in a former version of a kind", boolean
    )
    log_level: str = flag(
        "info",
        "debug, info, warning or error",
        one_of("debug", "info", "warning", "error"),
        "LEVEL",
    )
    log_format: str = flag("text", "text or json", one_of("text", "json"), "FORMAT")

    @property
    def installation(self) -> str:
        """Which installation of the operator this is: its Lease's namespace and name."""
        return f"{self.lease_namespace}/{self.lease_name}" if self.lease_name else ""


#: Variables that Kubernetes sets in each Pod for the Services of its namespace.
SERVICE_LINK = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_.*)?)")

S = TypeVar("S", bound=Settings)


class Program(msgspec.Struct, frozen=True):
    """The program's name and texts for `--help` and `--version`."""

    name: str
    version: str
    description: str

    @property
    def prefix(self) -> str:
        """The prefix of its environment variables."""
        return self.name.upper().replace("-", "_") + "_"


def _own_namespace(env: Mapping[str, str]) -> str:
    """Return the namespace of this process, or `default` outside a cluster."""
    if env.get("POD_NAMESPACE"):
        return env["POD_NAMESPACE"]
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "default"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}\nRun {self.prog} --help for more.\n")


def _add(parser: _Parser, prefix: str, env: Mapping[str, str], setting: Field[Any]) -> None:
    """Add a field's flag; the default is its environment variable, or else the field's default."""
    about, default = setting.metadata, setting.default
    variable = prefix + setting.name.upper()
    if variable in env:
        try:
            default = about["parse"](env[variable])
        except argparse.ArgumentTypeError as error:
            parser.error(f"{variable}: {error}")
    options: dict[str, Any] = {"type": about["parse"], "metavar": about["metavar"]}
    if about["parse"] is boolean:
        options = {"type": boolean, "nargs": "?", "const": True, "metavar": "true|false"}
    name = "--" + setting.name.replace("_", "-")
    meaning = f"{about['meaning']} (default: {about['default'] or 'empty'})".replace("%", "%%")
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
        "-n",
        "--namespace",
        dest="namespaces",
        action="extend",
        type=parsers.namespaces,
        metavar="NAME",
        help="watch this namespace; may be repeated (WATCH_NAMESPACE: a list with commas)",
    )
    scope.add_argument(
        "-A", "--all-namespaces", action="store_true", help="watch all namespaces (the default)"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing; print what one pass would change as "
        "`kubectl diff` does, and end with 0 (no difference), 1 (differences) or 2 (an error)",
    )
    for setting in fields(kind):
        if setting.metadata:
            _add(parser, program.prefix, env, setting)
    return parser


def parse(
    program: Program,
    kind: type[S],
    argv: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> S:
    """Return the settings from a command line and an environment.

    If they are invalid, or ask for help, print that and raise `SystemExit`.
    """
    env = os.environ if env is None else env
    parser = _parser(program, kind, env)
    values = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    everywhere = values.pop("all_namespaces")
    if values["namespaces"] is None and not everywhere:
        listed = env.get("WATCH_NAMESPACE", "")
        try:
            values["namespaces"] = parsers.namespaces(listed) if listed.strip() else ()
        except argparse.ArgumentTypeError as error:
            parser.error(f"WATCH_NAMESPACE: {error}")
    values["namespaces"] = tuple(dict.fromkeys(values["namespaces"] or ()))
    values["identity"] = env.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    values["lease_name"] = values["lease_name"] or program.name
    values["own_namespace"] = _own_namespace(env)
    values["pod_uid"] = env.get("POD_UID", "")
    values["lease_namespace"] = values["lease_namespace"] or values["own_namespace"]
    settings = kind(**values)
    if settings.namespaces and settings.namespace_selector:
        parser.error(
            "--namespace (or WATCH_NAMESPACE) and --namespace-selector are both set; leave one out"
        )
    if settings.webhook_secret and (settings.webhook_cert_path or not settings.webhook_service):
        parser.error("--webhook-secret needs --webhook-service, and excludes --webhook-cert-path")
    if not (settings.lease_retry_period < settings.lease_renew_deadline < settings.lease_duration):
        parser.error(
            "the Lease's timings must be in this order: "
            f"--lease-retry-period ({settings.lease_retry_period:g}) < "
            f"--lease-renew-deadline ({settings.lease_renew_deadline:g}) < "
            f"--lease-duration ({settings.lease_duration:g})"
        )
    return settings


def warn_of_unknown(
    program: Program, kind: type[Settings], env: Mapping[str, str] | None = None
) -> None:
    """Warn of each environment variable that has the program's prefix, but belongs to no flag."""
    known = {program.prefix + setting.name.upper() for setting in fields(kind) if setting.metadata}
    for variable in sorted((os.environ if env is None else env).keys() - known):
        if variable.startswith(program.prefix) and not SERVICE_LINK.fullmatch(variable):
            logger.warning(
                "The environment variable %s sets nothing, because no flag has this name; correct "
                "it (%s --help lists the flags) or remove it",
                variable,
                program.name,
            )
