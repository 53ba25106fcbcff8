"""What the guide says of the bundle holds."""

from kopf_kit.olm import bundle
from kopf_kit.project import documents
from kopf_kit.rig import paths

GUIDE = (paths.CHECKOUT / "docs" / "olm.md").read_text()


def test_the_guide_names_the_first_openshift_that_has_the_kubernetes_that_is_needed() -> None:
    (file,) = (bundle.BUNDLE / "manifests").glob("*.clusterserviceversion.yaml")
    needed = documents.load(file.read_text())["spec"]["minKubeVersion"]
    minor = int(needed.split(".")[1])
    # OpenShift 4.3 had Kubernetes 1.16, and each minor of the one has had one of the other since.
    first = f"4.{minor - 13}"

    assert f"Kubernetes 1.{minor} (`minKubeVersion`)" in GUIDE
    assert f"OpenShift {first} is the first version with it" in GUIDE
