"""What OLM v1 makes of the bundle, and the CRD upgrade that it would refuse."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from bundle.package import release, rendered
from kopf_kit.crd.upgrades import unsafe
from kopf_kit.olm import bundle, manifests, service_version
from kopf_kit.project import documents
from kopf_kit.project.releases import NAME

Manifest = dict[str, Any]

SPEC = {
    "text": {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]},
    "intervalSeconds": {
        "type": "integer",
        "format": "int32",
        "default": 10,
        "minimum": 1,
        "maximum": 86400,
    },
}
PHASE = {"type": "string", "enum": ["Failed", "Pending", "Processed"]}
SCHEMA = {
    "properties": {
        "spec": {"type": "object", "properties": SPEC},
        "status": {"type": "object", "properties": {"phase": PHASE}},
    }
}
VERSION = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": SCHEMA}}
CRD = {"spec": {"scope": "Namespaced", "versions": [VERSION]}}


def spec(crd: Manifest) -> Any:
    return schema(crd)["properties"]["spec"]


def schema(crd: Manifest) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def interval(crd: Manifest) -> Any:
    return spec(crd)["properties"]["intervalSeconds"]


def phase(crd: Manifest) -> Any:
    return schema(crd)["properties"]["status"]["properties"]["phase"]


def text(crd: Manifest) -> Any:
    return spec(crd)["properties"]["text"]


Change = Callable[[Manifest], object]


@pytest.mark.parametrize(
    ("place", "changes", "sentence"),
    [
        (
            lambda crd: crd["spec"],
            {"scope": "Cluster"},
            "spec.scope: Namespaced may not become Cluster",
        ),
        (
            lambda crd: crd["spec"]["versions"][0],
            {"name": "v2"},
            "spec.versions: v1 may not be removed while it is served",
        ),
        (lambda crd: spec(crd)["properties"], {"text": None}, "v1.spec.text: may not be removed"),
        (spec, {"required": ["text"]}, "v1.spec: text may not become required"),
        (
            interval,
            {"type": "string"},
            "v1.spec.intervalSeconds: type integer may not become string",
        ),
        (interval, {"default": 20}, "v1.spec.intervalSeconds: default 10 may not become 20"),
        (interval, {"default": None}, "v1.spec.intervalSeconds: default 10 may not become None"),
        (interval, {"minimum": 2}, "v1.spec.intervalSeconds: minimum 1 may not become 2"),
        (interval, {"maximum": 60}, "v1.spec.intervalSeconds: maximum 86400 may not become 60"),
        (text, {"minLength": 1}, "v1.spec.text: minLength None may not become 1"),
        (text, {"enum": ["Tick"]}, "v1.spec.text: may not be restricted to an enum"),
        (
            phase,
            {"enum": None},
            'v1.status.phase: enum may not lose "Failed", "Pending", "Processed"',
        ),
        (interval, {"format": "int64"}, "v1.spec.intervalSeconds: format may not change"),
        (text, {"pattern": "^a"}, "v1.spec.text: pattern may not change"),
        (text, {"nullable": True}, "v1.spec.text: nullable may not change"),
        (
            text,
            {"x-kubernetes-validations": None},
            "v1.spec.text: x-kubernetes-validations may not change",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_upgrade_that_olm_v1_refuses_is_told(
    place: Callable[[Manifest], Any], changes: Manifest, sentence: str
) -> None:
    changed = copy.deepcopy(CRD)
    place(changed).update(changes)
    for name in (name for name, value in changes.items() if value is None):
        del place(changed)[name]

    assert list(unsafe(CRD, changed)) == [sentence]


@pytest.mark.parametrize(
    "change",
    [
        lambda crd: phase(crd)["enum"].append("Paused"),
        lambda crd: interval(crd).update(minimum=0, maximum=10**6),
        lambda crd: interval(crd).pop("minimum"),
        lambda crd: spec(crd)["properties"].update(color={"type": "string"}),
        lambda crd: crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2"}),
        lambda crd: interval(crd).update(description="Otherwise"),
    ],
    ids=["enum", "bounds", "no-bound", "field", "version", "description"],
)
def test_an_upgrade_that_olm_v1_takes_is_not(change: Change) -> None:
    changed = copy.deepcopy(CRD)
    change(changed)

    assert list(unsafe(CRD, changed)) == []


def test_olm_v1_makes_of_the_bundle_the_operator_its_kind_and_its_rights() -> None:
    given = release("1.2.3")
    install = service_version.csv(given)["spec"]["install"]["spec"]
    (permissions,), (wide,) = install["permissions"], install["clusterPermissions"]

    made = rendered(bundle.bundle(given), NAME)

    assert sorted(manifest["kind"] for manifest in made) == [
        *("ClusterRole", "ClusterRole", "ClusterRoleBinding", "ClusterRoleBinding"),
        "CustomResourceDefinition",
        "Deployment",
        "ServiceAccount",
    ]
    roles = [manifest["rules"] for manifest in made if manifest["kind"] == "ClusterRole"]
    namespaces = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
    assert sorted(roles, key=len) == [wide["rules"], [*permissions["rules"], namespaces]]


def test_what_is_applied_has_namespace_and_users_roles_and_the_extension_last() -> None:
    applied = documents.load_all(manifests.texts()["olmv1.yaml"])

    assert (applied[0]["kind"], applied[0]["metadata"]["name"]) == ("Namespace", NAME)
    assert [
        found["metadata"]["name"]
        for found in applied
        if any("aggregate-to" in label for label in found["metadata"].get("labels", {}))
    ] == [f"widgets.acme.example.com-{role}" for role in ("view", "edit", "admin")]
    assert applied[-1]["kind"] == "ClusterExtension"
    assert applied[-1]["spec"]["source"]["catalog"] == {"packageName": NAME, "channels": ["stable"]}
