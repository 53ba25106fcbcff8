"""What an author declares of admission: the functions that the API server calls before a write.

`Controller.validate` and `Controller.default` make a `Webhook` of each. `working.admission` calls
it; the configuration with which the API server asks is written from its fields.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.parsers import DNS_LABEL

OPERATIONS = ("create", "update", "delete")
#: Seconds that a function may take at most; the API server waits for 30, and the answer takes some.
MAX_TIMEOUT, MARGIN = 25.0, 5
#: What each webhook leaves out, so that namespaces and garbage are deleted although nobody answers.
#: The operator's own user is left out, too; its name depends on the installation.
EXEMPT = {
    "not-the-control-plane": "!('system:serviceaccounts:kube-system' in request.userInfo.groups"
    " || request.userInfo.username.startsWith('system:kube-'))",
}


@dataclass(frozen=True, slots=True)
class Webhook:
    """A function that the API server calls before it stores an object, and for which writes."""

    #: `validating` or `mutating`.
    kind: str
    #: Its name in the configuration, and the path at which the operator answers.
    name: str
    path: str
    group: str
    versions: tuple[str, ...]
    resource: str
    #: Such as `CREATE`.
    operations: tuple[str, ...]
    #: `Fail` or `Ignore`: what happens to the write if nobody answers, or the function fails.
    failure_policy: str
    #: Expressions in CEL by their names; it is asked if all of them are true.
    match_conditions: Mapping[str, str]
    #: Seconds for which the API server waits; the function has `timeout` of them.
    timeout_seconds: int
    timeout: float
    function: Callable[..., Any]
    #: Labels of the objects; empty: all objects.
    object_selector: Mapping[str, Any] = field(default_factory=dict)
    #: `NoneOnDryRun` if the function changes something unless it is a dry run.
    side_effects: str = "None"


def webhook(
    kind: Kind,
    function: Callable[[Any, Any], Any],
    operations: Sequence[str],
    failure_policy: str,
    timeout: float,
    *,
    mutating: bool,
) -> Webhook:
    """Return what an author declares; raise `TypeError` or `ValueError` if it is invalid."""
    if not callable(function) or inspect.isasyncgenfunction(function):
        what = "the object, or None" if mutating else "the warnings, or yield them in `def`"
        raise TypeError(f"{function!r} cannot be a webhook: return {what}")
    label = getattr(function, "__name__", "").strip("_").lower().replace("_", "-")
    if not DNS_LABEL.fullmatch(label):
        raise ValueError(f"{label!r} cannot name a webhook; call the function after what it checks")
    possible = OPERATIONS[:2] if mutating else OPERATIONS
    if isinstance(operations, str) or not operations or not set(operations) <= set(possible):
        raise ValueError(f"operations={operations!r}: use a tuple of {', '.join(possible)}")
    if failure_policy not in ("fail", "ignore"):
        raise ValueError(f"failure_policy={failure_policy!r}: use 'fail' or 'ignore'")
    if not 0 < timeout <= MAX_TIMEOUT:  # nor NaN
        raise ValueError(
            f"timeout={timeout!r}: use more than 0 and at most {MAX_TIMEOUT:g} seconds"
        )
    which, verb = ("mutating", "mutate") if mutating else ("validating", "validate")
    return Webhook(
        which,
        f"{label}.{kind}",
        f"/{verb}/{kind}/{label}",
        kind.group,
        (kind.version,),
        kind.plural,
        tuple(operation.upper() for operation in OPERATIONS if operation in operations),
        failure_policy.capitalize(),
        EXEMPT,
        math.ceil(timeout) + MARGIN,
        timeout,
        function,
    )
