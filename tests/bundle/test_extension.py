"""OLM v1 may install the bundle with the rights that are generated for it, and may do no more."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml

from hack.pack import bundle, olmv1
from hack.pack.bundle import NAME
from tests.bundle.package import release
from tests.support.registry_v1 import rendered

Manifest = dict[str, Any]
#: Where, which verb, of which group and resource, of which name; an empty name is any.
Right = tuple[str, str, str, str, str]

ANYWHERE, HOME = "", NAME
RESOURCES = {
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
}


def documents(text: str) -> list[Manifest]:
    return list(yaml.safe_load_all(text))


def rights(where: str, rules: Iterable[Manifest]) -> Iterator[Right]:
    """Yield each right that rules grant."""
    for rule in rules:
        names = rule.get("resourceNames") or [""]
        for found in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"], names):
            yield (where, *found)


def granted(manifests: Iterable[Manifest]) -> set[Right]:
    """Return the rights that the roles among manifests grant."""
    return {
        right
        for manifest in manifests
        if manifest["kind"] in {"Role", "ClusterRole"}
        for right in rights(manifest["metadata"].get("namespace", ANYWHERE), manifest["rules"])
    }


def needed(manifest: Manifest) -> Iterator[Right]:
    """Yield the rights that it takes to make an object, to follow it, and to remove it."""
    metadata, resource = manifest["metadata"], RESOURCES[manifest["kind"]]
    group = manifest["apiVersion"].rpartition("/")[0]
    where = metadata.get("namespace", ANYWHERE)
    for verb in ("create", "list", "watch"):  # cannot be granted by name
        yield (where, verb, group, resource, "")
    for verb in ("get", "update", "patch", "delete"):
        yield (where, verb, group, resource, metadata["name"])


def test_the_installer_may_make_what_olm_makes_and_grant_what_it_grants_and_nothing_else() -> None:
    given = release("1.2.3")
    made = rendered(bundle.bundle(given), NAME)

    wanted = {right for manifest in made for right in needed(manifest)}
    wanted |= granted(made)  # nobody may grant what he has not
    wanted.add(
        (ANYWHERE, "update", "olm.operatorframework.io", "clusterextensions/finalizers", NAME)
    )

    assert granted(olmv1.installer(given)) == wanted


def test_the_rights_are_those_of_one_account_in_the_operator_s_namespace() -> None:
    manifests = olmv1.installer(release("1.2.3"))

    (account,) = (found for found in manifests if found["kind"] == "ServiceAccount")
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": NAME}
    bindings = [found for found in manifests if found["kind"].endswith("Binding")]
    assert [binding["subjects"] for binding in bindings] == [[subject], [subject]]
    roles = {
        (found["kind"], found["metadata"]["name"])
        for found in manifests
        if found["kind"].endswith("Role")
    }
    assert {(b["roleRef"]["kind"], b["roleRef"]["name"]) for b in bindings} == roles


def test_the_rights_for_the_next_release_stand_beside_those_for_this_one() -> None:
    one, other = (olmv1.installer(release(version)) for version in ("1.2.3", "1.2.4"))

    names = [
        {found["metadata"]["name"] for found in manifests if found["kind"] != "ServiceAccount"}
        for manifests in (one, other)
    ]
    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize("file", [olmv1.EXTENSION, olmv1.WITH_INSTALLER], ids=lambda f: f.name)
def test_what_is_applied_has_namespace_and_users_roles_and_the_extension_last(file: Any) -> None:
    manifests = documents(file.read_text())

    assert (manifests[0]["kind"], manifests[0]["metadata"]["name"]) == ("Namespace", NAME)
    assert [
        found["metadata"]["name"]
        for found in manifests
        if any("aggregate-to" in label for label in found["metadata"].get("labels", {}))
    ] == [f"messages.myorg.dev-{role}" for role in ("view", "edit", "admin")]
    assert manifests[-1]["kind"] == "ClusterExtension"
    assert manifests[-1]["spec"]["source"]["catalog"] == {
        "packageName": NAME,
        "channels": ["stable"],
    }


def test_an_account_is_named_where_olm_v1_needs_one_alone() -> None:
    without, with_one = (
        documents(file.read_text()) for file in (olmv1.EXTENSION, olmv1.WITH_INSTALLER)
    )

    assert "serviceAccount" not in without[-1]["spec"]
    assert [found for found in without if found["kind"] == "ServiceAccount"] == []
    assert with_one[-1]["spec"]["serviceAccount"] == {"name": olmv1.INSTALLER}
    assert olmv1.INSTALLER in [
        found["metadata"]["name"] for found in with_one if found["kind"] == "ServiceAccount"
    ]
