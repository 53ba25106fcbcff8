"""The manifest that installs the bundle with OLM v1: a ClusterExtension, and the users' roles.

`hack.pack.generated` writes it to deploy/olmv1.yaml. It names no ServiceAccount: since its release
1.11, OLM v1 ignores one and installs with its own rights.
"""

from pathlib import Path

from hack.pack import bundle, manifests
from hack.pack.bundle import NAME, Manifest
from hack.pack.project import PROJECT

EXTENSION = manifests.DEPLOY / "olmv1.yaml"


def files() -> dict[Path, str]:
    """Return the contents of the file, by its path."""
    documents = [manifests.namespace(), *_users_roles(), _extension()]
    return {EXTENSION: bundle.dump(*documents, by="hack/pack/olmv1.py of the chart and of olm/")}


def _users_roles() -> list[Manifest]:
    """Return the chart's roles for the kinds' users, which OLM v1 does not create."""
    prefixes = tuple(f"{kind.crd}-" for kind in PROJECT.kinds)
    return [
        found for found in manifests.rendered() if found["metadata"]["name"].startswith(prefixes)
    ]


def _extension() -> Manifest:
    catalog = {"packageName": NAME, "channels": [bundle.STABLE]}
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": NAME},
        "spec": {
            "namespace": NAME,
            "source": {"sourceType": "Catalog", "catalog": catalog},
        },
    }
