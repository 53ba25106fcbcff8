"""`make push ARGS=chart`: the chart in a registry installs the images that are in the registry."""

import secrets
from collections.abc import Iterator

import pytest

from kopf_kit.rig import registry
from message_operator import __version__
from tests.e2e.kube import Kube
from tests.e2e.messages import Namespace
from tests.make.commands import Make

RELEASE = "pushed"


@pytest.fixture
def destination() -> str:
    """A folder of the local registry that nothing was pushed to before."""
    registry.up()
    return f"{registry.ADDRESS}/test-{secrets.token_hex(4)}/of-the-user"


@pytest.fixture
def elsewhere(kube: Kube, home: Namespace) -> Iterator[Namespace]:
    """A namespace for a release, which is removed at the end."""
    yield home
    kube.helm("uninstall", RELEASE, "-n", home.name, "--ignore-not-found", "--wait")


def test_the_chart_that_was_pushed_needs_no_value_to_run_what_was_pushed_with_it(
    make: Make, destination: str, kube: Kube, elsewhere: Namespace, namespace: Namespace
) -> None:
    said = make("push", "ARGS=chart", f"REGISTRY={destination}")
    chart = f"oci://{destination}/charts/message-operator"
    assert chart in said

    kube.helm(
        *("install", RELEASE, chart, "--version", __version__, "--plain-http"),
        *("-n", elsewhere.name, "--wait", "--timeout=5m"),
    )

    pod = namespace.create("hello", "hello").wait_until_ready()
    deployment = kube.get("Deployment", f"{RELEASE}-message-operator", elsewhere.name) or {}
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    (printer,) = pod["spec"]["containers"]
    assert operator["image"].startswith(f"{destination}/message-operator@sha256:")
    assert printer["image"].startswith(f"{destination}/busybox@sha256:")
    readme = ("show", "readme", chart, "--version", __version__, "--plain-http")
    assert chart in kube.helm(*readme)


def test_what_is_no_registry_is_refused_before_anything_is_built(make: Make) -> None:
    refusal = make.refused("push", "REGISTRY=https://ghcr.io/you")

    assert "is not a valid registry; use host" in refusal
