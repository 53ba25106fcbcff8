"""Level-triggered reconciling for kopf: what controller-runtime is to client-go.

An author declares the kind, what it owns, and two pure functions. The runtime does the rest as
docs/reliability.md describes it. docs/runtime.md shows an operator of twenty lines.
"""

from kopf_runtime import kinds
from kopf_runtime.client import Client
from kopf_runtime.conditions import Status
from kopf_runtime.controller import Controller
from kopf_runtime.declaration import (
    AGE,
    READY,
    REASON,
    Column,
    Fields,
    ObjectName,
    Rule,
    Scale,
    custom_resource,
    rules,
)
from kopf_runtime.errors import ApiError
from kopf_runtime.kinds import Kind
from kopf_runtime.manager import Manager
from kopf_runtime.objects import Conditioned, Meta, Object, Resource
from kopf_runtime.parsers import at_least, image, one_of, truth
from kopf_runtime.records import Child, PlanError, Primary, Update
from kopf_runtime.retries import RetryError
from kopf_runtime.settings import Settings, flag
from kopf_runtime.status import Observed, by_default
from kopf_runtime.templates import short_hash
from kopf_runtime.troubles import Trouble
from kopf_runtime.wording import in_words

APPLY, REPLACE = Update.APPLY, Update.REPLACE

__all__ = [
    "AGE", "APPLY", "READY", "REASON", "REPLACE", "ApiError", "Child", "Client", "Column",
    "Conditioned", "Controller", "Fields", "Kind", "Manager", "Meta", "Object",
    "ObjectName", "Observed", "PlanError", "Primary", "Resource", "RetryError", "Rule", "Scale",
    "Settings", "Status", "Trouble",
    "at_least", "by_default", "custom_resource", "flag", "image", "in_words", "kinds", "one_of",
    "rules", "short_hash", "truth",
]  # fmt: skip
