"""A Memcached is a number of memcached nodes, kept by a Deployment of its name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import kopf_runtime as kr
from msgspec import Meta

from memcached_operator import __version__

MAX_NODES = 5  # nodes that a Memcached may have


class Limits(kr.Fields, frozen=True):
    """What each node may use at most."""

    memory: Annotated[int, Meta(ge=16)] = 64
    """Megabytes for what it caches."""
    connections: Annotated[int, Meta(ge=16)] = 1024
    """Clients at the same time."""


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    replicas: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 1
    """How many nodes there are."""
    limits: Limits = Limits()


class Status(kr.Fields, frozen=True):
    """What the operator last observed."""

    nodes: Annotated[list[kr.ObjectName], Meta(max_length=MAX_NODES)]
    """The names of its Pods."""
    replicas: Annotated[int, Meta(ge=0)]
    """How many Pods there are."""
    selector: Annotated[str, Meta(max_length=253)]
    """Selects its Pods."""


NAMED = kr.ValidationRule(
    "size(self.metadata.name) <= 63",
    "metadata.name must have at most 63 characters, as a label has; choose a shorter one",
    ".metadata.name",
)


@kr.custom_resource(
    "cache.example.com",
    "v1beta1",
    "memcacheds",
    short_names=["mc"],
    status=Status,
    ready="as many nodes as wanted are ready, and no others are there",
    printer_columns=[kr.Column("Replicas", ".spec.replicas"), kr.READY, kr.REASON, kr.AGE],
    scale=kr.Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    validations=[NAMED],
)
class Memcached(kr.Resource):
    """A Memcached is a number of memcached nodes, kept by a Deployment of its name."""

    spec: Spec = Spec()


class AlphaSpec(kr.Fields, frozen=True):
    """What is wanted."""

    size: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 1
    """How many nodes there are."""
    memory: Annotated[int, Meta(ge=16)] = 64
    """Megabytes that each node caches."""


@kr.custom_resource(
    "cache.example.com",
    "v1alpha1",
    "memcacheds",
    kind="Memcached",
    storage=True,
    status=Status,
    ready="as many nodes as wanted are ready, and no others are there",
    printer_columns=[kr.Column("Size", ".spec.size"), kr.READY, kr.REASON, kr.AGE],
    scale=kr.Scale(".spec.size", ".status.replicas", ".status.selector"),
    validations=[NAMED],
)
class AlphaMemcached(kr.Resource):
    """A Memcached is a number of memcached nodes, kept by a Deployment of its name."""

    spec: AlphaSpec = AlphaSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings."""

    node_image: str = kr.flag("docker.io/library/memcached:1.6", "their image", kr.image, "IMAGE")


def project(pod: kr.Conditioned) -> bool | None:
    """Return whether a node is ready, None if it has ended."""
    return None if pod.status.phase in ("Succeeded", "Failed") else pod.holds("Ready")


def labels(name: str) -> dict[str, str]:
    """Return what selects a Memcached's Pods."""
    return {"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": name}


manager = kr.Manager("memcached-operator", Settings, version=__version__)
controller = manager.controller_for(Memcached)
controller.owns(kr.kinds.DEPLOYMENT)
controller.descendants(kr.kinds.POD, kr.Conditioned, transform=project)


@controller.convert(AlphaMemcached, Memcached)
def newer(old: AlphaMemcached) -> Memcached:
    """Return a Memcached of v1alpha1 as one of v1beta1."""
    limits = Limits(memory=old.spec.memory)
    return Memcached(metadata=old.metadata, spec=Spec(replicas=old.spec.size, limits=limits))


@controller.convert(Memcached, AlphaMemcached)
def older(new: Memcached) -> AlphaMemcached:
    """Return a Memcached of v1beta1 as one of v1alpha1."""
    spec = AlphaSpec(size=new.spec.replicas, memory=new.spec.limits.memory)
    return AlphaMemcached(metadata=new.metadata, spec=spec)


@controller.desired
def desired(memcached: Memcached, context: kr.Context[Settings]) -> Iterable[dict[str, Any]]:
    """Return the Deployment of a Memcached."""
    name, limits = memcached.metadata.name, memcached.spec.limits
    container = {
        "name": "memcached",
        "image": context.settings.node_image,
        "command": [
            "memcached",
            f"--memory-limit={limits.memory}",
            f"--conn-limit={limits.connections}",
        ],
        "ports": [{"name": "memcached", "containerPort": 11211}],
        "readinessProbe": {"tcpSocket": {"port": "memcached"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"containers": [container], "securityContext": {"runAsUser": 11211, **restricted}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels(name)},
        "spec": {
            "replicas": memcached.spec.replicas,
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": {"labels": labels(name)}, "spec": pod},
        },
    }


@controller.status
def status(memcached: Memcached, seen: kr.Observed) -> kr.Status:
    """Return the status of a Memcached."""
    size, pods = memcached.spec.replicas, seen.descendants[kr.kinds.POD]
    nodes = {pod.name: pod.view for pod in pods if pod.view is not None and not pod.deleting}
    selected = labels(memcached.metadata.name)
    selector = ",".join(f"{label}={value}" for label, value in selected.items())
    fields = Status(nodes=list(nodes)[:MAX_NODES], replicas=len(nodes), selector=selector)
    ready = sum(nodes.values())
    text = f"Ready nodes: {ready} of {size}."
    if ready == len(nodes) == size:
        return kr.Status(True, "Scaled", text, fields)
    return kr.Status(False, "Progressing", text, fields, transient=True)
