"""What these tests stand on: images of etcd, volumes, a bucket, and clients in the cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kopf_kit.rig import tools
from kopf_kit.testing import Cluster, Installed, Kubectl, in_node, push_image
from kopf_kit.testing.installed import HOME
from kopf_kit.testing.requests import wait_until

from tests.e2e import offline
from tests.e2e.offline import apply, dockerfile

HERE = Path(__file__).parent
#: The version of etcd of each minor version, the oldest first.
VERSIONS = [version.removeprefix("v") for version in offline.ETCDS.values()]
KEYS = {"AWS_ACCESS_KEY_ID": "backup", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret"}
WAIT = "--timeout=300s"
_LOGS = ("logs", "clients", "--tail=20")


@pytest.fixture(scope="session", autouse=True)
def provided(e2e_cluster: Cluster) -> Iterator[None]:
    """Provide etcd and volumes, even if a registry can be reached: kind promises no class."""
    _remove(Kubectl(e2e_cluster, HOME))
    offline.provide_volumes(e2e_cluster)
    offline.provide_images(e2e_cluster)
    yield
    _remove(Kubectl(e2e_cluster, HOME))


def _remove(kubectl: Kubectl) -> None:
    """Remove the volumes, and before them those who use them: an interrupted run leaves some."""
    delete = ("delete", "--ignore-not-found", WAIT)
    kubectl(*delete, "namespace", HOME)
    kubectl(*delete, "persistentvolumes", f"--selector=of={offline.CLASS}")
    kubectl(*delete, "storageclass", offline.CLASS)
    in_node(kubectl.cluster, "rm", "-rf", offline.FOLDER)


@pytest.fixture(scope="session")
def bucket(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a store: a bucket of versitygw, an S3 server whose store is a folder."""
    file = dockerfile(tmp_path_factory.mktemp("s3"), *tools.built("versitygw"))
    ref = push_image(kubectl.cluster, "versitygw", file)
    command = ["versitygw", "--port=:7070", "--quiet", "posix", "/s3"]
    names = {"ROOT_ACCESS_KEY": "AWS_ACCESS_KEY_ID", "ROOT_SECRET_KEY": "AWS_SECRET_ACCESS_KEY"}
    env = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": key}}}
        for name, key in names.items()
    ]
    mounts = [{"name": "bucket", "mountPath": "/s3/backups"}]
    labels = {"app": "s3"}
    apply(
        kubectl,
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": KEYS},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s3"},
            "spec": {"selector": labels, "ports": [{"port": 7070}]},
        },
        pod("s3", ref, command, labels, env, mounts, [{"name": "bucket", "emptyDir": {}}]),
    )
    kubectl("wait", "--for=condition=Ready", "pod/s3", WAIT)
    return {"s3": {"bucket": "backups", "endpoint": "http://s3:7070", "secret": "keys"}}


class Clients:
    """Clients of an EtcdCluster, in a Pod: they write and read until `stop`."""

    def __init__(self, kubectl: Kubectl, image: str, cluster: str) -> None:
        self.kubectl, self.command = kubectl, ["python3", "/clients/clients.py", cluster]
        files = (HERE / "clients.py", HERE.parent / "faults" / "history.py")
        texts = {file.name: file.read_text() for file in files}
        mounts = [{"name": "clients", "mountPath": "/clients"}]
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clients"}}
        volumes = [{"name": "clients", "configMap": {"name": "clients"}}]
        clients = pod("clients", image, self.command, {}, [], mounts, volumes)
        apply(kubectl, {**config, "data": texts}, clients)
        kubectl("wait", "--for=condition=Ready", "pod/clients", WAIT)

    def stop(self) -> dict[str, Any]:
        """End them; return what they have seen, and whether it contradicts itself."""
        self.call("stop")
        line = wait_until("the check", lambda: self.kubectl(*_LOGS), lambda log: log.strip())
        result: dict[str, Any] = json.loads(line.splitlines()[-1])
        return result

    def put(self, key: str, value: str) -> int:
        """Write a key; return its revision."""
        return int(self.call("put", key, value)["header"]["revision"])

    def get(self, key: str) -> str | None:
        """Return the value of a key."""
        value: str | None = self.call("get", key)["value"]
        return value

    def call(self, *arguments: str) -> dict[str, Any]:
        phase = self.kubectl("get", "pod/clients", "--output=jsonpath={.status.phase}")
        assert phase == "Running", self.kubectl("describe", "pod/clients") + self.kubectl(*_LOGS)
        result = json.loads(self.kubectl("exec", "clients", "--", *self.command, *arguments))
        assert isinstance(result, dict)
        return result


@pytest.fixture(scope="session")
def clients(kubectl: Kubectl, installed: Installed) -> Clients:
    """The clients of the EtcdCluster `sample`; the operator's image has Python and aiohttp."""
    (container,) = installed.pods()[0]["spec"]["containers"]
    return Clients(kubectl, container["image"], "sample")


def pod(
    name: str,
    image: str,
    command: list[str],
    labels: dict[str, str],
    env: list[Any],
    mounts: list[Any],
    volumes: list[Any],
) -> dict[str, Any]:
    """Return a Pod with one container."""
    container = {"name": name, "image": image, "command": command, "env": env}
    spec = {"containers": [{**container, "volumeMounts": mounts}], "volumes": volumes}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
    }
