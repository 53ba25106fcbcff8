"""What OLM v1 makes of a bundle, in the mode for all namespaces.

As its renderer does, which cannot be built here with the rest of operator-controller:
https://github.com/operator-framework/operator-controller/blob/v1.11.0/internal/operator-controller/rukpak/render/registryv1/generators/generators.go
"""

from collections.abc import Mapping
from typing import Any

import yaml

Manifest = dict[str, Any]

_NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}


def rendered(files: Mapping[str, str], namespace: str, role: str) -> list[Manifest]:
    """Return the objects, the operator's ClusterRole and its binding with the name `role`."""
    manifests = [
        yaml.safe_load(text) for path, text in files.items() if path.startswith("manifests/")
    ]
    (csv,) = (found for found in manifests if found["kind"] == "ClusterServiceVersion")
    spec = csv["spec"]["install"]["spec"]
    (permissions,), (deployment,) = spec["permissions"], spec["deployments"]
    account = permissions["serviceAccountName"]
    template = deployment["spec"]["template"]
    template["metadata"]["annotations"] = {
        **csv["metadata"]["annotations"],
        **template["metadata"].get("annotations", {}),
        "olm.targetNamespaces": "",
        "olm.operatorNamespace": namespace,
    }
    rbac = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [*permissions["rules"], _NAMESPACES],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
        *(found for found in manifests if found["kind"] == "CustomResourceDefinition"),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": deployment["name"],
                "namespace": namespace,
                "labels": deployment["label"],
            },
            "spec": {**deployment["spec"], "revisionHistoryLimit": 1},
        },
    ]
