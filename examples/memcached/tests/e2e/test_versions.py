"""Both versions of a Memcached on a cluster, which the operator converts, also during a rollout."""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from kopf_kit.testing.installed import Installed, Kubectl

BETA, ALPHA = (f"memcacheds.{version}.cache.example.com" for version in ("v1beta1", "v1alpha1"))
OLD = {
    "apiVersion": "cache.example.com/v1alpha1",
    "kind": "Memcached",
    "metadata": {"name": "old"},
    "spec": {"size": 0, "memory": 128},
}


@pytest.fixture(scope="module", autouse=True)
def old(kubectl: Kubectl) -> Iterator[None]:
    kubectl("apply", "--filename=-", stdin=json.dumps(OLD))
    yield
    kubectl("delete", ALPHA, "old", "--timeout=120s")


@pytest.fixture
def url(kubectl: Kubectl) -> Iterator[str]:
    """Return where a proxy of the API server has the Memcached in v1beta1."""
    proxy = kubectl.command("proxy", "--port=0")
    with subprocess.Popen(proxy, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        yield (
            f"http://{address}/apis/cache.example.com/v1beta1/namespaces/{kubectl.namespace}"
            "/memcacheds/old"
        )
        process.terminate()


def test_each_version_is_read_and_written(kubectl: Kubectl) -> None:
    limits = {"memory": 256, "connections": 2048}
    kubectl("patch", BETA, "old", "--type=merge", "-p", json.dumps({"spec": {"limits": limits}}))
    kubectl("patch", ALPHA, "old", "--type=merge", "-p", '{"spec": {"size": 1}}')

    assert kubectl.get(ALPHA, "old")["spec"] == {"size": 1, "memory": 256}
    assert kubectl.get(BETA, "old")["spec"] == {"replicas": 1, "limits": limits}
    kubectl("wait", "--for=condition=Ready", ALPHA, "old", "--timeout=150s")
    (container,) = kubectl.get("deployment", "old")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["memcached", "--memory-limit=256", "--conn-limit=2048"]


def test_a_reader_of_the_other_version_notices_no_rollout(
    request: pytest.FixtureRequest, kubectl: Kubectl, installed: Installed, url: str
) -> None:
    if request.config.getoption("--installed-in"):
        pytest.skip("OLM owns the Deployment, and takes back what restarts it")
    failed, done, reads = list[str](), threading.Event(), 0

    def read() -> None:
        nonlocal reads
        while not done.wait(0.02):
            reads += 1
            try:
                urllib.request.urlopen(url, timeout=40).read()  # noqa: S310
            except OSError as error:
                failed.append(f"{reads}: {error}")

    before = {pod["metadata"]["name"] for pod in installed.pods()}
    reader = threading.Thread(target=read)
    reader.start()
    try:
        installed.kubectl("rollout", "restart", "deployment/memcached-operator")
        installed.kubectl("rollout", "status", "deployment/memcached-operator", "--timeout=150s")
        installed.kubectl("wait", "--for=delete", *(f"pod/{name}" for name in before))
    finally:
        done.set()
        reader.join()

    assert not before & {pod["metadata"]["name"] for pod in installed.pods()}
    assert failed == []
    assert reads > 20
