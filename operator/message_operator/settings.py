"""The operator's own settings, which configure the message Pods, in addition to the runtime's."""

import argparse
from dataclasses import dataclass
from typing import Any

import msgspec

import kopf_runtime as kr

#: The message Pods run as `USER`, unless the cluster assigns them a user.
AUTO, USER = "auto", 65532
#: The largest user ID in Kubernetes (apimachinery/pkg/util/validation, IsValidUserID).
MOST_USER = 2**31 - 1
LINUX = {"kubernetes.io/os": "linux"}
#: Lets the Cluster Autoscaler remove a node: the operator recreates a message Pod elsewhere.
SAFE_TO_EVICT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
LITTLE = {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"cpu": "100m", "memory": "16Mi"}}


class PodTemplate(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Fields of the message Pods that a cluster may require, named as in a Pod's manifest."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = msgspec.field(default_factory=lambda: SAFE_TO_EVICT)
    node_selector: dict[str, str] = msgspec.field(default_factory=lambda: LINUX)
    tolerations: list[dict[str, Any]] = []
    affinity: dict[str, Any] = {}
    topology_spread_constraints: list[dict[str, Any]] = []
    priority_class_name: str = ""
    runtime_class_name: str = ""
    resources: dict[str, Any] = msgspec.field(default_factory=lambda: LITTLE)
    pod_security_context: dict[str, Any] = {}
    security_context: dict[str, Any] = {}


def _user(text: str) -> int | str | None:
    if text == AUTO:
        return text
    return None if text == "none" else int(kr.at_least(1, int, most=MOST_USER)(text))


def _secrets(text: str) -> tuple[str, ...]:
    names = (name.strip() for name in text.split(","))
    return tuple(kr.object_name(name) for name in names if name)


def _template(text: str) -> PodTemplate:
    try:
        template = msgspec.json.decode(text or "{}", type=PodTemplate)
    except msgspec.MsgspecError as error:
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(PodTemplate))
        raise argparse.ArgumentTypeError(
            f"{text!r:.200} is not a valid Pod template: {error}. "
            f"It is a JSON object with any of {fields}"
        ) from error
    if "runAsUser" in template.pod_security_context | template.security_context:
        raise argparse.ArgumentTypeError(
            "a security context has runAsUser; set the message Pods' user by --message-user instead"
        )
    return template


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    message_image: str = kr.flag(
        "docker.io/library/busybox:1.37", "the message Pods' image: a BusyBox", kr.image, "IMAGE"
    )
    message_pull_policy: str = kr.flag(
        "IfNotPresent",
        "when the message Pods' image is pulled: Always, IfNotPresent or Never",
        kr.one_of("Always", "IfNotPresent", "Never"),
        "POLICY",
    )
    message_pull_secrets: tuple[str, ...] = kr.flag(
        "",
        "Secrets in the Messages' namespaces to pull that image with: a list with commas",
        _secrets,
        "NAMES",
    )
    message_user: int | str | None = kr.flag(
        AUTO,
        f"the message Pods' numeric user; '{AUTO}': {USER}, or none where the cluster gives "
        "one, as OpenShift does; 'none' always leaves it to the cluster",
        _user,
        "UID",
    )
    message_pod: PodTemplate = kr.flag(
        "",
        "what the cluster asks of the message Pods, as JSON: nodeSelector, tolerations, "
        "resources, labels, annotations and more",
        _template,
        "JSON",
    )
