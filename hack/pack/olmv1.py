"""What installs the bundle by OLM v1: a ClusterExtension, and what its administrator grants.

`hack.pack.generated` writes it to deploy/olmv1.yaml; and with the account that OLM v1 needs up to
its release 1.10, to deploy/olmv1-installer.yaml. Later ones ignore the account: they install with
rights of their own.
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
#: What cannot be granted for an object by its name, and what can.
_OF_ALL, _OF_ONE = ["create", "list", "watch"], ["get", "update", "patch", "delete"]


def files() -> dict[Path, str]:
    """Return the texts of both files, by their paths."""
    before = [manifests.namespace(), *_users_roles()]
    current = bundle.current()
    return {
        EXTENSION: _dump([*before, _extension()]),
        WITH_INSTALLER: _dump([*before, *installer(current), _extension(INSTALLER)]),
    }


def _users_roles() -> list[Manifest]:
    """Return the roles of the kinds' users, which OLM v1 does not make: the chart's."""
    prefixes = tuple(f"{kind.crd}-" for kind in PROJECT.kinds)
    return [
        found for found in manifests.rendered() if found["metadata"]["name"].startswith(prefixes)
    ]


def _extension(account: str = "") -> Manifest:
    """Return the ClusterExtension, with the account that installs, where it needs one."""
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

    The roles are named after the version: those of the next release are applied beside them, so
    that it may remove what is of the former one.
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
    """Return the rules for what OLM v1 makes in the cluster, and for what it thereby grants.

    Nobody may grant what he has not, so the installer has all rights of the operator.
    """
    kinds = [kind.crd for kind in PROJECT.kinds]
    return [
        # With OwnerReferencesPermissionEnforcement, owners can be named by who may do this alone.
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
    """Return the rules for what OLM v1 makes in the operator's namespace."""
    spec = bundle.csv(release)["spec"]["install"]["spec"]
    (deployment,) = spec["deployments"]
    (permissions,) = spec["permissions"]
    return [
        *_manage("", ["serviceaccounts"], permissions["serviceAccountName"]),
        *_manage("apps", ["deployments"], deployment["name"]),
    ]


def _manage(group: str, resources: list[str], *names: str) -> list[Manifest]:
    """Return the rules for making objects, and for those of these names seeing to them."""
    about = {"apiGroups": [group], "resources": resources}
    return [{**about, "verbs": _OF_ALL}, {**about, "resourceNames": [*names], "verbs": _OF_ONE}]


def operator_rules(release: Release) -> list[Manifest]:
    """Return the rules that OLM v1 gives the operator, which serves all namespaces there.

    They are the bundle's; as OLM does with a global OperatorGroup, it adds that to see namespaces.
    """
    (permissions,) = bundle.csv(release)["spec"]["install"]["spec"]["permissions"]
    rules: Sequence[Manifest] = permissions["rules"]
    namespaces = {
        "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"],
    }  # fmt: skip
    return [*rules, namespaces]


#: The fields of a rule in the order in which Go writes them.
_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST = 63


def role_name(release: Release) -> str:
    """Return what OLM v1 calls the operator's ClusterRole, and its binding."""
    (permissions,) = bundle.csv(release)["spec"]["install"]["spec"]["permissions"]
    account = permissions["serviceAccountName"]
    return unique_name(f"{release.name}-{account}", account, operator_rules(release))


def unique_name(base: str, account: str, rules: Sequence[Manifest]) -> str:
    """Return a name as OLM v1 makes it: with a hash of the rules, of 63 characters at most.

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
