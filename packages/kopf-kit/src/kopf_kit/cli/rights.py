"""`kopf-kit rights`: records the rights that an operator uses, or compares its Role with them.

    kopf-kit rights record -- pytest tests/faults
    kopf-kit rights check --role config/rbac/role.yaml --log audit.log --user system:…

A command runs with the fixtures of `kopf_kit.testing`, whose API servers then keep an audit log and
allow the operator everything. The log of any other API server is given with `--log`.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kopf_kit.project import recorded
from kopf_kit.project.recorded import Requests
from kopf_kit.project.rights import Rule
from kopf_kit.rig import control_plane, paths
from kopf_kit.rig.run import KitError
from kopf_kit.rig.steps import say

_FILE = "rights.yaml"


class _Rights(NamedTuple):
    """What an operator may do."""

    #: What says so, for people.
    where: str
    rules: Sequence[Rule]
    #: Those that kopf or the runtime needs, whatever the operator does.
    assumed: Sequence[Rule] = ()


def _reads_a_log(function: Callable[..., Any]) -> Any:
    """Let a command read audit logs: those of a test that it runs, or a given one."""
    for option in (
        click.argument("test", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]"),
        click.option("--role", metavar="FILE", help="The operator's Role, else what PROJECT says."),
        click.option("--user", default="", help="The operator's user in the log."),
        click.option("--log", metavar="FILE", help="An audit log; then no command runs."),
    ):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Record the rights that an operator uses, or compare its Role with them."""


@command.command()
@_reads_a_log
def record(test: tuple[str, ...], role: str | None, user: str, log: str | None) -> None:
    """Run a test of the operator, and write rights.yaml with the least rules that it needs.

    Above each rule are requests that need it. `rights: rights.yaml` in PROJECT has the chart grant
    them. Differences from the operator's Role are printed.
    """
    ours, file = _rights(role), paths.CHECKOUT / _FILE
    used = _requests(test, log, user)
    name = paths.prefix() if paths.has_project() else paths.CHECKOUT.name
    least = recorded.beyond(used, ours.assumed) if ours else used
    file.write_text(recorded.role(name, least))
    say(f"{file} written")
    for sentence in _differences(used, ours) if ours else ():
        say(sentence)


@command.command()
@_reads_a_log
def check(test: tuple[str, ...], role: str | None, user: str, log: str | None) -> int:
    """Run a test of the operator; fail if its Role lacks a right, or has one that it never used."""
    ours = _rights(role)
    if ours is None:
        raise KitError("there is no PROJECT here: name a file with the operator's Role by --role")
    wrong = [*_differences(_requests(test, log, user), ours)]
    print("\n".join(wrong) or f"{ours.where} has the rights that the operator used, and no other")
    return 1 if wrong else 0


def _rights(role: str | None) -> _Rights | None:
    """Return what an operator may do by a file, or by PROJECT; None where there is neither."""
    from kopf_kit.project import granted, rights

    if role is not None:
        return _Rights(role, granted.read([Path(role)]).rules)
    if not paths.has_project():
        return None
    from kopf_kit.crd import declared
    from kopf_kit.project.definition import PROJECT

    adopted = PROJECT.adopted
    if adopted is None:
        rules = [rule for _, rule in declared.operator().rules]
        return _Rights(f"the code of {PROJECT.manager}", rules, [rights.LEASES])
    given = rights.given(PROJECT).rules if adopted.rights else []
    kopfs = [rule for _, rule in rights.kopfs(PROJECT)]
    return _Rights(", ".join(adopted.roles) or "PROJECT", given, [*kopfs, rights.SCANNING])


def _requests(test: Sequence[str], log: str | None, user: str) -> Requests:
    """Return what the operator asked for while a test ran, or by a log."""
    if log is not None:
        if not user:
            raise KitError(
                "--user is missing: name the operator's user in the log, for a ServiceAccount "
                "system:serviceaccount:NAMESPACE:NAME"
            )
        used = recorded.requests([Path(log)], user)
        where = f"{log} has no request of {user}"
    elif test:
        used = _recorded(test, user)
        where = f"`{' '.join(test)}` started no operator with the fixtures of kopf_kit.testing"
    else:
        raise KitError(
            "there is nothing to run: use for example `kopf-kit rights record -- pytest tests`, or "
            "name an audit log with --log"
        )
    if not used:
        raise KitError(f"{where}, so its rights are unknown")
    return used


def _recorded(test: Sequence[str], user: str) -> Requests:
    """Run a test whose API servers keep an audit log; return what operators asked of them."""
    with tempfile.TemporaryDirectory(prefix="kopf-kit-audit-") as folder:
        try:
            code = subprocess.call(test, env={**os.environ, control_plane.AUDITED: folder})
        except OSError as error:
            raise KitError(f"cannot run {test[0]}: {error.strerror}") from error
        if code:
            raise KitError(
                f"`{' '.join(test)}` failed ({code}), so requests may be missing: fix it first"
            )
        return recorded.requests(sorted(Path(folder).glob("*.log")), user)


def _differences(used: Requests, ours: _Rights) -> Iterator[str]:
    """Yield a sentence for each right that is missing, or that was never used."""
    for right, path in recorded.missing(used, [*ours.rules, *ours.assumed]):
        yield (
            f"missing: the right to {right}: {ours.where} does not give it, and the operator asked "
            f"for {path}"
        )
    for right in recorded.unused(ours.rules, used):
        yield f"unused: the right to {right}: {ours.where} gives it, and nothing asked for it"
