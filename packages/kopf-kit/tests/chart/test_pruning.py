"""Argo CD and Flux prune neither the kind nor its users' roles, whatever has them.

`test_helm_users.py` has Helm and kubectl do it for real.
"""

import pytest

from chart.helm import Manifest, Values, find, names, render
from kopf_kit.olm.manifests import texts
from kopf_kit.project import documents
from kopf_kit.project.definition import PROJECT

KIND = PROJECT.kinds[0].crd
OPTIONS = "argocd.argoproj.io/sync-options"
FLUX = {"kustomize.toolkit.fluxcd.io/prune": "disabled"}


def pruned(live: list[Manifest], desired: list[Manifest]) -> set[str]:
    """Return the names of the objects that Argo CD deletes when it syncs an Application.

    It prunes what is no longer desired, unless the live object says Prune=false. Annotations of
    Helm's do not count (argo-cd #17819).
    https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#no-prune-resources
    """
    return {
        name for name, manifest in gone(live, desired) if "Prune=false" not in options(manifest)
    }


def pruned_by_flux(live: list[Manifest], desired: list[Manifest]) -> set[str]:
    """Return the names of the objects that a Kustomization of Flux with `prune: true` deletes.

    It spares what has its own annotation, or the label of the same name.
    https://fluxcd.io/flux/components/kustomize/kustomizations/#prune
    """
    return {
        name
        for name, manifest in gone(live, desired)
        if not FLUX.items() <= (manifest["metadata"].get("annotations") or {}).items()
    }


def gone(live: list[Manifest], desired: list[Manifest]) -> list[tuple[str, Manifest]]:
    """Return the objects that are no longer desired, each with its name."""
    left = set(names(desired))
    return [
        (manifest["metadata"]["name"], manifest)
        for manifest, key in zip(live, names(live), strict=True)
        if key not in left
    ]


def options(manifest: Manifest) -> list[str]:
    """Return an object's sync options as Argo CD reads them."""
    text: str = manifest["metadata"].get("annotations", {}).get(OPTIONS, "")
    return [option.strip() for option in text.split(",") if option.strip()]


def of_the_kind(manifests: list[Manifest]) -> list[Manifest]:
    """Return the CustomResourceDefinition and its users' roles."""
    found = [m for m in manifests if m["metadata"]["name"].startswith(KIND)]
    assert len(found) == 4
    return found


@pytest.mark.parametrize("last", ["the operator's Application", "crds.yaml"])
def test_p1_moving_the_kind_out_of_the_application_and_back_deletes_no_object(last: str) -> None:
    operator = render({"crds": {"install": False}})
    applied = documents.load_all(texts()["crds.yaml"]) if last == "crds.yaml" else render()

    for tool in (pruned, pruned_by_flux):
        assert tool(of_the_kind(applied) + operator, operator) == set()
        assert tool(of_the_kind(applied), []) == set()


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ("Prune=false", "Prune=false"),
        ("ServerSideApply=true", "Prune=false,ServerSideApply=true"),
        (
            "PruneLast=true,Delete=confirm,PruneLast=true",
            "Prune=false,PruneLast=true,Delete=confirm",
        ),
        # Only one Prune can hold: the one that deletes nothing.
        (" Prune=confirm , Delete=false, ", "Prune=false,Delete=false"),
        ("Prune=true", "Prune=false"),
    ],
)
def test_p1_the_user_s_own_sync_options_are_joined(theirs: str, expected: str) -> None:
    annotations = {OPTIONS: theirs, "a": "b"}
    kept = {"helm.sh/resource-policy": "keep", OPTIONS: expected, "a": "b", **FLUX}

    manifests = render(
        {"crds": {"annotations": annotations}, "commonAnnotations": {OPTIONS: "Lost=true"}}
    )
    assert find(manifests, "CustomResourceDefinition", KIND)["metadata"]["annotations"] == kept
    common: Values = {"commonAnnotations": annotations}
    for manifest in of_the_kind(render(common)):
        assert manifest["metadata"]["annotations"] == kept


def test_p1_what_is_not_to_be_kept_has_only_the_user_s_options() -> None:
    # How a user is asked before the kind is pruned.
    annotations = {"helm.sh/resource-policy": "keep", OPTIONS: "Prune=confirm"}

    for manifest in of_the_kind(render({"crds": {"keep": False}})):
        assert "annotations" not in manifest["metadata"]
    manifests = render({"crds": {"keep": False, "annotations": annotations}})
    crd = find(manifests, "CustomResourceDefinition", KIND)
    assert crd["metadata"]["annotations"] == annotations


@pytest.mark.parametrize("file", ["install.yaml", "crds.yaml"])
def test_p1_plain_manifests_say_it_too(file: str) -> None:
    manifests = documents.load_all(texts()[file])

    crd = find(manifests, "CustomResourceDefinition", KIND)
    assert crd["metadata"]["annotations"] == {OPTIONS: "Prune=false", **FLUX}
