"""The plain manifests of a release are what Helm installs, and kustomize can change them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.helm import CHART, Manifest, helm, names, understood
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.rig import tools

TEXTS = {name: text for name, text in texts().items() if name.endswith(".yaml")}
NAME = "widget-operator"
OVERLAY: dict[str, Any] = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "resources": ["install.yaml"],
    "namespace": "elsewhere",
    "images": [
        {
            "name": "ghcr.io/example/widget-operator",
            "newName": "registry.example/widget-operator",
            "newTag": "1.2.3",
        }
    ],
}


def manifests(file: str) -> list[Manifest]:
    """Return the objects in a file of a release."""
    return documents.load_all(TEXTS[file])


def by_helm(*options: str | Path) -> list[Manifest]:
    """Return what Helm renders for a release called as the operator, in a namespace called so."""
    text = helm("template", NAME, CHART, "--namespace", NAME, "--skip-tests", *options)
    return documents.load_all(text)


def plain(found: Any) -> Any:
    """Return objects without labels and annotations that are only Helm's."""
    if isinstance(found, list):
        return [plain(part) for part in found]
    if not isinstance(found, dict):
        return found
    kept = {
        key: plain(value)
        for key, value in found.items()
        if not key.startswith("helm.sh/")
        and (key, value) != ("app.kubernetes.io/managed-by", "Helm")
    }
    return {k: v for k, v in kept.items() if v or k not in ("annotations", "labels")}


def test_install_yaml_is_what_helm_installs_in_a_namespace_of_its_own() -> None:
    namespace, *installed = manifests("install.yaml")

    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", NAME)
    assert installed == plain(by_helm())


def test_crds_yaml_is_the_kind_with_its_users_roles() -> None:
    kind = plain(by_helm("--show-only", "templates/crd.yaml"))
    roles = plain(by_helm("--show-only", "templates/aggregated-roles.yaml"))

    assert manifests("crds.yaml") == [*kind, *roles]


def test_crds_yaml_and_an_operator_without_the_kind_are_the_whole() -> None:
    operator = plain(by_helm("--set=crds.install=false"))

    assert sorted(names(manifests("crds.yaml") + operator)) == sorted(names(plain(by_helm())))


def test_nothing_in_it_is_helm_s() -> None:
    for file, text in TEXTS.items():
        assert "helm.sh/" not in text, file
        assert "managed-by: Helm" not in text, file


# --- kustomize ----------------------------------------------------------------------------------


def kustomized(folder: Path) -> list[Manifest]:
    """Return what kubectl's kustomize makes of a folder."""
    done = subprocess.run(
        [tools.path("kubectl"), "kustomize", folder], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return documents.load_all(done.stdout)


@pytest.fixture
def changed(tmp_path: Path) -> list[Manifest]:
    """The overlay of the guide, with what is on the page of a release."""
    (tmp_path / "install.yaml").write_text(TEXTS["install.yaml"])
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(OVERLAY))
    return kustomized(tmp_path)


def test_an_overlay_changes_the_namespace_everywhere(changed: list[Manifest]) -> None:
    wanted = OVERLAY["namespace"]

    assert wanted != NAME
    assert {namespace for _, namespace, _ in names(changed)} == {"", wanted}
    assert [name for kind, _, name in names(changed) if kind == "Namespace"] == [wanted]
    subjects = [subject for found in changed for subject in found.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {wanted}


def test_in_another_namespace_the_lease_is_there_too(changed: list[Manifest]) -> None:
    (deployment,) = (m for m in changed if m["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    namespace = deployment["metadata"]["namespace"]

    operator = understood(container["args"], {"POD_NAMESPACE": namespace})

    (role,) = (m for m in changed if m["kind"] == "Role")
    assert operator.lease_namespace == role["metadata"]["namespace"] == namespace


def test_an_overlay_changes_the_image(changed: list[Manifest]) -> None:
    (deployment,) = (m for m in changed if m["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (image,) = OVERLAY["images"]

    assert container["image"] == f"{image['newName']}:{image['newTag']}"
