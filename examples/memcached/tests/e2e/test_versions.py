"""Both versions of a Memcached on a cluster: the operator converts, also during an upgrade."""

import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kopf_kit.cli import deploy
from kopf_kit.testing.installed import Installed, Kubectl

CRD = "memcacheds.cache.example.com"
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
    """Return where a proxy of the API server has the group of the Memcacheds."""
    proxy = kubectl.command("proxy", "--port=0")
    with subprocess.Popen(proxy, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        yield f"http://{address}/apis/cache.example.com"
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


@pytest.fixture
def by_helm(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--installed-in"):
        pytest.skip("OLM upgrades to another release alone, and makes the certificate itself")


@contextmanager
def used(url: str, kubectl: Kubectl) -> Iterator[None]:
    """Have somebody read and write both versions, and notice nothing."""
    failed, done, written = list[str](), threading.Event(), 0
    kubectl("patch", ALPHA, "old", "--type=merge", "-p", '{"spec": {"size": 0}}')
    where = f"namespaces/{kubectl.namespace}/memcacheds/old"

    def ask(version: str, spec: dict[str, Any] | None = None) -> Any:
        asked = urllib.request.Request(  # noqa: S310
            f"{url}/{version}/{where}",
            json.dumps({"spec": spec}).encode() if spec else None,
            {"Content-Type": "application/merge-patch+json"},
            method="PATCH" if spec else "GET",
        )
        try:
            with urllib.request.urlopen(asked, timeout=40) as answer:  # noqa: S310
                return json.load(answer)["spec"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error

    def use() -> None:
        nonlocal written
        while not done.wait(0.1):
            number = 100 + written
            try:
                ask("v1beta1", {"limits": {"connections": number}})
                ask("v1alpha1", {"memory": number})
                limits = {"memory": number, "connections": number}
                assert ask("v1beta1") == {"replicas": 0, "limits": limits}
            except (OSError, AssertionError) as error:
                failed.append(f"{written}: {error}")
            written += 1

    user = threading.Thread(target=use)
    user.start()
    try:
        yield
    finally:
        done.set()
        user.join()

    assert failed == []
    assert written > 20


@contextmanager
def new_pods(installed: Installed) -> Iterator[None]:
    """Have the Pods of the operator replaced, and wait until the former ones are gone."""
    before = [f"pod/{pod['metadata']['name']}" for pod in installed.pods()]
    yield
    installed.kubectl("wait", "--for=delete", "--timeout=150s", *before)


@pytest.mark.usefixtures("by_helm")
def test_who_reads_and_writes_both_versions_notices_no_upgrade_and_no_rollback(
    kubectl: Kubectl, installed: Installed, url: str
) -> None:
    with used(url, kubectl):
        for change in (
            lambda: deploy.install(kubectl.cluster, "--set=podAnnotations.a=b"),
            lambda: installed.helm("rollback", installed.namespace, "--wait", "--timeout=3m"),
        ):
            with new_pods(installed):
                change()
