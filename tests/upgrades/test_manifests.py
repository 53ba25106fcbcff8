"""The install.yaml of a release, applied by kubectl: it names what is in the registry by digest."""

from collections.abc import Iterator

import pytest

from kopf_kit.olm import manifests
from tests.e2e import release
from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace
from tests.upgrades.life import HEAD, Life
from tests.upgrades.witnesses import Witnesses


@pytest.fixture
def applied(kube: Kube, life: Life, messages: Namespace) -> Iterator[str]:
    """The manifests of a release, applied; deleted after the test."""
    release.remove_crd(kube)
    text = life.install_yaml(HEAD)
    kube.kubectl("apply", "-f", "-", stdin=text)
    yield text
    kube.kubectl("delete", "-f", "-", "--timeout=5m", "--ignore-not-found", stdin=text)


def test_install_yaml_is_applied_and_serves(
    kube: Kube, life: Life, messages: Namespace, applied: str
) -> None:
    name = manifests.NAME
    kube.kubectl("-n", name, "rollout", "status", f"deployment/{name}", "--timeout=5m")

    Witnesses(messages, f"of {HEAD}").assert_served("edited")

    deployment = kube.get("Deployment", name, name) or {}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == life.image(HEAD)
