"""The chart in a cluster: each test has releases of its own.

They take over the kind that the release before them has left, unless a test asks for a cluster
`without_kind`: a kind takes its time to go.
"""

import contextlib
import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Iterator

import pytest

from chart import foreign_kinds
from chart.helm import CHART, helm
from kopf_kit.olm import manifests
from kopf_kit.release import artifacts
from kopf_kit.release.artifacts import Published
from kopf_kit.rig import cluster as hack_cluster
from kopf_kit.rig import registry
from tests.e2e import release
from tests.e2e.kube import Kube, Object
from tests.e2e.messages import Namespace, make_namespace
from tests.e2e.release import Operator

#: The version that `previous` is published as.
OLDER = "0.0.9"


#: Gives a release of that name in that namespace; nothing is installed yet.
Releases = Callable[..., Operator]


@pytest.fixture(scope="session")
def published(hack_made: hack_cluster.Cluster) -> Published:
    """What there is to install."""
    if hack_made.existing:
        pytest.skip("these tests remove the kind and every Message: only in a cluster of our own")
    return artifacts.publish_installation(hack_made)


@pytest.fixture(scope="session")
def previous(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The release before this one, as far as upgrades go.

    As long as none was published, it is this chart under an older version, with a kind that does
    not know `intervalSeconds` yet.
    """
    folder = tmp_path_factory.mktemp("previous")
    chart = folder / "message-operator"
    shutil.copytree(CHART, chart)
    crd = chart / "templates" / "crd.yaml"
    former, fields = re.subn(r"( +)intervalSeconds:\n(\1 +.*\n)+", "", crd.read_text())
    assert fields == 1
    crd.write_text(former)
    helm("package", chart, "--destination", folder, "--version", OLDER, "--app-version", OLDER)
    package = folder / f"message-operator-{OLDER}.tgz"
    helm("push", package, f"oci://{registry.ADDRESS}/charts", "--plain-http")
    repository, _, _ = published.chart.partition("@")
    options = ("--version", OLDER, *published.options)
    return dataclasses.replace(published, chart=repository, options=options)


def image_digest(published: Published) -> str:
    """Return the digest of the operator's image."""
    (option,) = (o for o in published.options if o.startswith("--set-string=image.digest="))
    return option.rpartition("=")[2]


def clean_cluster(kube: Kube) -> None:
    """Remove every operator, and the kind with all Messages."""
    release.clean(kube, ours=True)
    release.remove_crd(kube)


def apply(kube: Kube, objects: list[Object]) -> None:
    """Do as an administrator does who applies what the chart renders."""
    everything = {"apiVersion": "v1", "kind": "List", "items": objects}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(everything))


def the_kind(kube: Kube) -> None:
    """Install the kind alone, as an administrator does who lets others install operators."""
    kube.kubectl("apply", "-f", "-", stdin=manifests.texts()["crds.yaml"])
    kube.kubectl("wait", "--for=condition=Established", f"crd/{release.CRD}")


@contextlib.contextmanager
def monitoring_kinds(kube: Kube) -> Iterator[None]:
    """Have the kinds of the Prometheus Operator for a while, which does not run itself."""
    crds = foreign_kinds.crds(foreign_kinds.PROMETHEUS_OPERATOR)
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    apply(kube, crds)
    try:
        kube.kubectl("wait", "--for=condition=Established", *names)
        yield
    finally:
        kube.kubectl("delete", *names)


@pytest.fixture
def without_kind(kube: Kube, published: Published) -> None:
    """Have a cluster that has neither an operator nor the kind."""
    clean_cluster(kube)


@pytest.fixture
def releases(kube: Kube, published: Published) -> Iterator[Releases]:
    """Make releases in a cluster that has no other operator; then remove them."""
    made: list[Operator] = []

    def make(
        namespace: Namespace,
        name: str = release.NAME,
        published: Published = published,
        takes_over: bool = True,
    ) -> Operator:
        here = {"name": name, "namespace": namespace.name}
        made.append(Operator(kube, published, takes_over=takes_over, **here))
        return made[-1]

    release.clean(kube, ours=True)
    yield make
    troubles = {operator.name: operator.trouble() for operator in made}
    for operator in made:
        kube.helm(
            "uninstall", operator.name, "-n", operator.namespace, "--ignore-not-found", "--wait"
        )
    assert not any(troubles.values()), f"an operator was in trouble: {troubles}"


@pytest.fixture
def home(request: pytest.FixtureRequest, kube: Kube, releases: Releases) -> Iterator[Namespace]:
    """The namespace of the operator."""
    yield from make_namespace(kube, f"{request.node.originalname[:40]}-home")


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, kube: Kube, releases: Releases
) -> Iterator[Namespace]:
    """A namespace for the test's Messages."""
    yield from make_namespace(kube, request.node.originalname)


@pytest.fixture
def other(request: pytest.FixtureRequest, kube: Kube, releases: Releases) -> Iterator[Namespace]:
    """One more namespace."""
    yield from make_namespace(kube, f"{request.node.originalname[:40]}-other")


@pytest.fixture(autouse=True)
def the_operator_is_well() -> None:
    """Have no operator beside those of the test, which `releases` looks after."""
