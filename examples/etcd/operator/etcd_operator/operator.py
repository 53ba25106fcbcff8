"""The kind, what an object of it should have, and the operator that sees to it.

`make generate` derives the CustomResourceDefinition and the RBAC rules from what is declared here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import kopf_runtime as kr
import msgspec

from etcd_operator import __version__


class Spec(kr.Fields, frozen=True):
    """What is wanted."""

    text: Annotated[str, msgspec.Meta(max_length=1024, description="The text to hold.")] = "Hello!"


@kr.custom_resource(
    "etcd.example.com",
    "v1alpha1",
    "etcdclusters",
    ready="its ConfigMap holds the text",
    columns=[kr.READY, kr.REASON, kr.AGE],
)
class EtcdCluster(kr.Resource):
    """A text that is held by a ConfigMap of the same name."""

    spec: Spec = Spec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(kr.Settings):
    """The operator's settings: each field is a flag and an environment variable.

    Such as `image: str = kr.flag("docker.io/library/busybox:1.38", "the Pods' image", kr.image)`.
    """


manager = kr.Manager("etcd-operator", Settings, version=__version__)
controller = manager.controller_for(EtcdCluster)
controller.owns(kr.kinds.CONFIG_MAP)


@controller.desired
def desired(obj: EtcdCluster, _: kr.Context[Settings]) -> Iterable[dict[str, Any]]:
    """Return what an object should have."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": obj.metadata.name},
        "data": {"text": obj.spec.text},
    }
