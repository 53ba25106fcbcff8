"""Whatever installs the operator, an API server lets it take its Lease in its own namespace.

The rights of Helm's and OLM v1's installations are what they render. What OLM v0 makes of a CSV is
written down here: https://olm.operatorframework.io/docs/advanced-tasks/operator-scoping-with-operatorgroups/
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bundle.package import release, rendered
from kopf_kit.chart import templates
from kopf_kit.olm import bundle, service_version
from kopf_kit.project.releases import NAME
from kopf_kit.rig.control_plane import ControlPlane
from kopf_kit.testing.api_server import kubectl, running
from kopf_kit.testing.requests import Raw

_RBAC = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def by_helm(namespace: str, watched: tuple[str, ...]) -> list[Raw]:
    values = f"--set-json=watchNamespaces={json.dumps(watched)}"
    return list(templates.rendered_again(f"--namespace={namespace}", values))


def by_olm_v0(namespace: str, watched: tuple[str, ...]) -> list[Raw]:
    """Return what OLM v0 makes: `permissions` in the operator's and in each watched namespace."""
    spec = service_version.csv(release("1.2.3"))["spec"]["install"]["spec"]
    scopes: list[tuple[str, str | None]] = [("clusterPermissions", None)]
    scopes += [("permissions", scope) for scope in {namespace, *watched} if watched]
    scopes += [] if watched else [("permissions", None)]
    return [
        manifest
        for field, scope in scopes
        for grant in spec.get(field, [])
        for manifest in _bound(f"{namespace}-{field.lower()}", grant["rules"], namespace, scope)
    ]


def _bound(name: str, rules: list[Raw], home: str, scope: str | None) -> list[Raw]:
    """Return a role and its binding to the operator's ServiceAccount."""
    cluster = "" if scope else "Cluster"
    group = "rbac.authorization.k8s.io"
    metadata = {"name": name, **({"namespace": scope} if scope else {})}
    role = {"kind": f"{cluster}Role", "metadata": metadata, "rules": rules}
    binding = {
        "kind": f"{cluster}RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": f"{cluster}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": home}],
    }
    return [{"apiVersion": f"{group}/v1", **manifest} for manifest in (role, binding)]


def by_olm_v1(namespace: str, watched: tuple[str, ...]) -> list[Raw]:
    return rendered(bundle.bundle(release("1.2.3")), namespace, *watched)


OWN = ("own",)
CASES = [
    *((by_helm, watched) for watched in ((), OWN, ("a",), ("a", "b"))),
    *((by_olm_v0, watched) for watched in ((), OWN, ("a",), ("a", "b"))),
    *((by_olm_v1, watched) for watched in ((), OWN, ("a",))),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with running() as started:
        yield started


def review(home: str, namespace: str, verb: str, name: str = "") -> Raw:
    """Return the question whether the operator of a namespace may do this with a Lease."""
    asked = {"group": "coordination.k8s.io", "resource": "leases", "namespace": namespace}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{home}:{NAME}",
            "resourceAttributes": {**asked, "verb": verb, "name": name},
        },
    }


@pytest.mark.parametrize(
    ("way", "watched"), CASES, ids=[f"{way.__name__}-{'-'.join(w) or 'all'}" for way, w in CASES]
)
def test_j4_it_may_take_its_lease_and_no_other(
    plane: ControlPlane, way: Any, watched: tuple[str, ...]
) -> None:
    home = f"{way.__name__}-{'-'.join(watched) or 'all'}".replace("_", "-")
    scope = tuple(home if name == "own" else f"{home}-{name}" for name in watched)
    made = [manifest for manifest in way(home, scope) if manifest["kind"] in _RBAC]
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in {home, *scope}
    ]
    kubectl(plane, "create", "-f", "-", stdin=namespaces)
    kubectl(plane, "apply", "-f", "-", stdin=made)

    needed = [review(home, home, verb, NAME) for verb in ("get", "update")]
    needed.append(review(home, home, "create"))
    others = [review(home, home, verb, "another") for verb in ("get", "update", "delete")]
    output = ("-o", "jsonpath={.status.allowed} ", "-f", "-")
    answers = kubectl(plane, "create", *output, stdin=[*needed, *others]).split()

    assert answers == ["true"] * len(needed) + ["false"] * len(others)
