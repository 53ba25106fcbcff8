"""The manifests that install the bundle with OLM v1: a ClusterExtension, and the users' roles.

`hack.pack.generated` writes them to deploy/olmv1.yaml, and, with the ServiceAccount that OLM v1
needs up to its release 1.10, to deploy/olmv1-installer.yaml. Later releases ignore the account and
install with their own rights.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hack.pack import bundle, manifests
from hack.pack.bundle import NAME, Manifest, Release
from hack.pack.project import PROJECT

EXTENSION = manifests.DEPLOY / "olmv1.yaml"
WITH_INSTALLER = manifests.DEPLOY / "olmv1-installer.yaml"
INSTALLER = f"{NAME}-installer"

_RBAC = "rbac.authorization.k8s.io"
#: Verbs that cannot be granted for a named object, and verbs that can.
_OF_ALL, _OF_ONE = ["create", "list", "watch"], ["get", "update", "patch", "delete"]


def files() -> dict[Path, str]:
    """Return the contents of both files, by path."""
    before = [manifests.namespace(), *_users_roles()]
    current = bundle.current()
    return {
        EXTENSION: _dump([*before, _extension()]),
        WITH_INSTALLER: _dump([*before, *installer(current), _extension(INSTALLER)]),
    }


def _users_roles() -> list[Manifest]:
    """Return the chart's roles for the kinds' users, which OLM v1 does not create."""
    prefixes = tuple(f"{kind.crd}-" for kind in PROJECT.kinds)
    return [
        found for found in manifests.rendered() if found["metadata"]["name"].startswith(prefixes)
    ]


def _extension(account: str = "") -> Manifest:
    """Return the ClusterExtension, with the account that installs it, if it needs one."""
    spec: Manifest = {
        "namespace": NAME,
        "source": {
            "sourceType": "Catalog",
            "catalog": {"packageName": NAME, "channels": [bundle.STABLE]},
        },
    }
    if account:
        spec["serviceAccount"] = {"name": account}
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": NAME},
        "spec": spec,
    }


# --- the account that installs -------------------------------------------------------------------


def installer(release: Release) -> list[Manifest]:
    """Return the ServiceAccount that installs a release, with its rights.

    The roles are named after the version. The next release's are applied beside them, so that it
    still has the right to remove objects of the previous one.
    """
    name = f"{INSTALLER}-v{release.version}"
    account = {"kind": "ServiceAccount", "name": INSTALLER, "namespace": NAME}
    found: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": INSTALLER, "namespace": NAME},
        }
    ]
    for prefix, where, rules in (
        ("Cluster", {}, cluster_rules(release)),
        ("", {"namespace": NAME}, namespace_rules(release)),
    ):
        metadata = {"name": name, **where}
        found += [
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": f"{prefix}Role",
                "metadata": metadata,
                "rules": rules,
            },
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": f"{prefix}RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": name},
                "subjects": [account],
            },
        ]
    return found


def cluster_rules(release: Release) -> list[Manifest]:
    """Return the rules for the cluster-scoped objects that OLM v1 creates, and for their rights.

    Nobody can grant rights that they do not have, so the installer has all rights of the operator.
    """
    kinds = [kind.crd for kind in PROJECT.kinds]
    return [
        # OwnerReferencesPermissionEnforcement requires this right to set an owner reference.
        {
            "apiGroups": ["olm.operatorframework.io"],
            "resources": ["clusterextensions/finalizers"],
            "resourceNames": [NAME],
            "verbs": ["update"],
        },
        *_manage("apiextensions.k8s.io", ["customresourcedefinitions"], *kinds),
        *_manage(_RBAC, ["clusterroles", "clusterrolebindings"], role_name(release)),
        *operator_rules(release),
    ]


def namespace_rules(release: Release) -> list[Manifest]:
    """Return the rules for the objects that OLM v1 creates in the operator's namespace."""
    spec = bundle.csv(release)["spec"]["install"]["spec"]
    (deployment,) = spec["deployments"]
    (permissions,) = spec["permissions"]
    return [
        *_manage("", ["serviceaccounts"], permissions["serviceAccountName"]),
        *_manage("apps", ["deployments"], deployment["name"]),
    ]


def _manage(group: str, resources: list[str], *names: str) -> list[Manifest]:
    """Return the rules to create objects, and to manage those of these names."""
    about = {"apiGroups": [group], "resources": resources}
    return [{**about, "verbs": _OF_ALL}, {**about, "resourceNames": [*names], "verbs": _OF_ONE}]


def operator_rules(release: Release) -> list[Manifest]:
    """Return the rules that OLM v1 grants the operator, which serves all namespaces there.

    They are the bundle's, and, as with a global OperatorGroup, the right to read namespaces.
    """
    (permissions,) = bundle.csv(release)["spec"]["install"]["spec"]["permissions"]
    rules: Sequence[Manifest] = permissions["rules"]
    namespaces = {
        "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"],
    }  # fmt: skip
    return [*rules, namespaces]


#: The fields of a rule in Go's order.
_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST = 63


def role_name(release: Release) -> str:
    """Return the name that OLM v1 gives the operator's ClusterRole and its binding."""
    (permissions,) = bundle.csv(release)["spec"]["install"]["spec"]["permissions"]
    account = permissions["serviceAccountName"]
    return unique_name(f"{release.name}-{account}", account, operator_rules(release))


def unique_name(base: str, account: str, rules: Sequence[Manifest]) -> str:
    """Return a name as OLM v1 generates it, with a hash of the rules, of at most 63 characters.

    https://github.com/operator-framework/operator-controller/blob/v1.11.0/internal/shared/util/hash/hash.go
    """
    ordered = [{field: rule[field] for field in _FIELDS if rule.get(field)} for rule in rules]
    permission = {"serviceAccountName": account, "rules": ordered}
    text = json.dumps(permission, separators=(",", ":"), ensure_ascii=False) + "\n"
    for character in "<>&":  # as Go writes them
        text = text.replace(character, f"\\u{ord(character):04x}")
    number = int.from_bytes(hashlib.sha224(text.encode()).digest(), "big")
    suffix = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        suffix = _DIGITS[digit] + suffix
    if len(base) + len(suffix) > _LONGEST:
        base = base[: _LONGEST - len(suffix) - 1]
    return f"{base}-{suffix}"


def _dump(documents: Sequence[Manifest]) -> str:
    return bundle.dump(*documents, by="hack/pack/olmv1.py of the chart and of olm/")
