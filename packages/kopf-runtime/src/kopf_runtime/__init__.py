"""Level-triggered reconciling for Python, in kopf's process.

An author declares the kind, what it owns, and two pure functions. The runtime does the rest as
docs/reliability.md describes it. docs/runtime.md says what it declares.
"""

from kopf_runtime.cluster import lean  # before others import kopf
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.tls import Expiry, expiry_of, text_of, tls_context, tls_of
from kopf_runtime.declaring import kinds
from kopf_runtime.declaring.conditions import Condition, Status, condition
from kopf_runtime.declaring.context import CallContext, Context, ReviewContext, StepContext, User
from kopf_runtime.declaring.controller import Controller
from kopf_runtime.declaring.declaration import (
    AGE,
    READY,
    REASON,
    Column,
    Fields,
    ObjectName,
    Quantity,
    Scale,
    ValidationRule,
    custom_resource,
    validations,
)
from kopf_runtime.declaring.errors import ApiError, Denied, PlanError, RetryError, Wait
from kopf_runtime.declaring.given import Child, Client, Owner
from kopf_runtime.declaring.kinds import Kind, manifest
from kopf_runtime.declaring.models import Manifest
from kopf_runtime.declaring.objects import Conditioned, Object, ObjectMeta, Resource
from kopf_runtime.declaring.parsers import at_least, image, object_name, one_of
from kopf_runtime.declaring.records import Fate, Update
from kopf_runtime.declaring.rights import PolicyRule
from kopf_runtime.declaring.settings import Settings, flag
from kopf_runtime.declaring.workloads import (
    Attempt,
    Job,
    JobRun,
    PersistentVolumeClaim,
    Pod,
    Secret,
)
from kopf_runtime.process.manager import Manager
from kopf_runtime.reporting.status import Observed, default_status
from kopf_runtime.reporting.troubles import Trouble
from kopf_runtime.working.templates import short_hash

lean.imported()

RECREATE, CREATE = Update.RECREATE, Update.CREATE
DELETE, RETAIN, ORPHAN = Fate.DELETE, Fate.RETAIN, Fate.ORPHAN

__all__ = [
    "AGE",
    "CREATE",
    "DELETE",
    "ORPHAN",
    "READY",
    "REASON",
    "RECREATE",
    "RETAIN",
    "ApiError",
    "Attempt",
    "CallContext",
    "Child",
    "Client",
    "Column",
    "Condition",
    "Conditioned",
    "Context",
    "Controller",
    "Denied",
    "Expiry",
    "Fields",
    "Job",
    "JobRun",
    "Kind",
    "Manager",
    "Manifest",
    "Object",
    "ObjectMeta",
    "ObjectName",
    "Observed",
    "Owner",
    "PersistentVolumeClaim",
    "PlanError",
    "Pod",
    "PolicyRule",
    "Quantity",
    "Resource",
    "RetryError",
    "ReviewContext",
    "Scale",
    "Secret",
    "Settings",
    "Status",
    "StepContext",
    "Trouble",
    "User",
    "ValidationRule",
    "Wait",
    "at_least",
    "condition",
    "custom_resource",
    "default_status",
    "describe_error",
    "expiry_of",
    "flag",
    "image",
    "kinds",
    "manifest",
    "object_name",
    "one_of",
    "short_hash",
    "text_of",
    "tls_context",
    "tls_of",
    "validations",
]
