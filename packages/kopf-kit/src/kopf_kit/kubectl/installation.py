"""What the Deployment of an operator says: its settings, its account, the namespaces it serves.

Anybody who may edit a namespace can write such a Deployment there; `trust` tells whose counts.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kopf_kit.kubectl import subject

Object = dict[str, Any]

#: OLM sets this annotation on the operator's Pods to the namespaces to serve.
OLM = "olm.targetNamespaces"


class Operator(NamedTuple):
    """An installed operator: its Deployment, Pods and Lease."""

    deployment: Object
    pods: list[Object]
    #: None if it elects no leader or has no Lease yet.
    lease: Object | None
    #: The nodes that are not ready, of those with Pods that are not.
    lost: tuple[str, ...] = ()
    #: The namespaces whose administrators vouch for it; None if one of the cluster's does.
    only: tuple[str, ...] | None = None

    @property
    def namespace(self) -> str:
        """The namespace that it is installed in."""
        return str(self.deployment["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of its Deployment."""
        return str(self.deployment["metadata"]["name"])

    @property
    def title(self) -> str:
        """What a finding calls it."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> str:
        """Its version, or empty if its Deployment does not say."""
        labels = self.deployment["metadata"].get("labels") or {}
        return str(labels.get("app.kubernetes.io/version", ""))

    @property
    def account(self) -> str:
        """Its user name at the API server."""
        spec = self.deployment["spec"]["template"]["spec"]
        name = spec.get("serviceAccountName") or "default"
        return f"system:serviceaccount:{self.namespace}:{name}"

    @property
    def elects(self) -> bool:
        """Whether its replicas elect a leader."""
        return setting(self.deployment, "leader-elect").lower() == "true"

    @property
    def lease_name(self) -> str:
        """The name of the Lease."""
        return setting(self.deployment, "lease-name") or subject.current().name

    @property
    def lease_namespace(self) -> str:
        """The namespace of the Lease."""
        namespace = setting(self.deployment, "lease-namespace") if self.only is None else ""
        return namespace or self.namespace

    @property
    def selector(self) -> str:
        """The label selector of the namespaces that it serves; empty if it uses none."""
        return setting(self.deployment, "namespace-selector") if self.only is None else ""

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that it is to serve; empty for all, or with a selector."""
        return self.named if self.only is None else [*self.only]

    @property
    def named(self) -> list[str]:
        """The namespaces that it is configured to serve, trusted or not."""
        arguments, env = _container(self.deployment)
        named = [a.partition("=")[2] for a in arguments if a.startswith("--namespace=")]
        if not named and "--all-namespaces" not in arguments:
            template = self.deployment["spec"]["template"]["metadata"]
            text = env.get("WATCH_NAMESPACE") or (template.get("annotations") or {}).get(OLM) or ""
            named = [name.strip() for name in text.split(",") if name.strip()]
        return named


def is_operator(deployment: Object) -> bool:
    """Return whether a Deployment looks like an operator's."""
    ours = subject.current()
    arguments, env = _container(deployment)
    image = str(deployment["spec"]["template"]["spec"]["containers"][0].get("image", ""))
    by_image = re.split("[:@]", image.rpartition("/")[2])[0] == ours.name
    return by_image or any(word.startswith(ours.signs) for word in (*arguments, *env))


def _container(deployment: Object) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment of the first container, which is the operator's."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = [str(argument) for argument in container.get("args") or ()]
    return arguments, {v["name"]: v.get("value", "") for v in container.get("env") or ()}


def setting(deployment: Object, flag: str) -> str:
    """Return the value of a flag or of its environment variable; empty if neither is set."""
    arguments, env = _container(deployment)
    for argument in reversed(arguments):
        name, _, value = argument.partition("=")
        if name == f"--{flag}":
            return value or "true"
    return env.get(subject.current().variables + flag.upper().replace("-", "_"), "")
