"""Level-triggered reconciling for kopf: what controller-runtime is to client-go.

An author declares the kind, what it owns, and two pure functions. The runtime does the rest as
docs/reliability.md describes it. docs/runtime.md shows an operator of twenty lines.
"""

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring import kinds
from kopf_runtime.declaring.conditions import Status
from kopf_runtime.declaring.declaration import (
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
from kopf_runtime.declaring.errors import ApiError, RetryError, in_words
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.declaring.objects import Conditioned, Meta, Object, Resource
from kopf_runtime.declaring.parsers import at_least, image, one_of, truth
from kopf_runtime.declaring.records import Child, PlanError, Primary, Update
from kopf_runtime.declaring.settings import Settings, flag
from kopf_runtime.process.controller import Controller
from kopf_runtime.process.manager import Manager
from kopf_runtime.reporting.status import Observed, by_default
from kopf_runtime.reporting.troubles import Trouble
from kopf_runtime.working.templates import short_hash

APPLY, REPLACE = Update.APPLY, Update.REPLACE

__all__ = [
    "AGE", "APPLY", "READY", "REASON", "REPLACE", "ApiError", "Child", "Client", "Column",
    "Conditioned", "Controller", "Fields", "Kind", "Manager", "Meta", "Object",
    "ObjectName", "Observed", "PlanError", "Primary", "Resource", "RetryError", "Rule", "Scale",
    "Settings", "Status", "Trouble",
    "at_least", "by_default", "custom_resource", "flag", "image", "in_words", "kinds", "one_of",
    "rules", "short_hash", "truth",
]  # fmt: skip
