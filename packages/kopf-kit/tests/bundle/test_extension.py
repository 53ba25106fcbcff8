"""OLM v1 makes of the bundle what OLM makes, and what is applied for it names the bundle."""

from bundle.package import release
from bundle.registry_v1 import rendered
from kopf_kit.olm import bundle, manifests
from kopf_kit.olm.bundle import NAME
from kopf_kit.project import documents


def test_olm_v1_makes_of_the_bundle_the_operator_its_kind_and_its_rights() -> None:
    given = release("1.2.3")
    install = bundle.csv(given)["spec"]["install"]["spec"]
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
    ] == [f"messages.myorg.dev-{role}" for role in ("view", "edit", "admin")]
    assert applied[-1]["kind"] == "ClusterExtension"
    assert applied[-1]["spec"]["source"]["catalog"] == {
        "packageName": NAME,
        "channels": ["stable"],
    }
