"""What these tests stand on: images of etcd, volumes, a bucket, and clients in the cluster."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kopf_kit.rig import tools, versions
from kopf_kit.testing import Cluster, Installed, Kubectl, in_node, push_image, stand_in
from kopf_kit.testing.installed import HOME
from kopf_kit.testing.waiting import wait_until

from etcd_operator.settings import Settings

HERE = Path(__file__).parent
ETCDS = {**versions.OLDER_ETCD, versions.NEWEST_ETCD: versions.ETCD}
#: The version of etcd of each minor version, the oldest first.
VERSIONS = [version.removeprefix("v") for version in ETCDS.values()]
KEYS = {"AWS_ACCESS_KEY_ID": "backup", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret"}
WAIT = "--timeout=300s"
#: Enough for all members ever: a volume is used once.
VOLUMES = 19
_CLASS = "etcd-e2e"
_LOGS = ("logs", "clients", "--tail=20")
_FOLDER = f"/var/lib/{_CLASS}"


@pytest.fixture(scope="session", autouse=True)
def volumes(e2e_cluster: Cluster) -> Iterator[None]:
    """Provide volumes, by default of a class of their own: kind itself does not promise one."""
    kubectl = Kubectl(e2e_cluster, HOME)
    _remove(kubectl)
    names = [f"{_CLASS}-{n}" for n in range(VOLUMES)]
    in_node(e2e_cluster, "install", "-d", "-m", "777", *(f"{_FOLDER}/{name}" for name in names))
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    apply(
        kubectl,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": _CLASS, "annotations": default},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        *(_volume(name) for name in names),
    )
    yield
    _remove(kubectl)


def _volume(name: str) -> dict[str, Any]:
    spec = {
        "storageClassName": _CLASS,
        "capacity": {"storage": "8Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"{_FOLDER}/{name}", "type": "Directory"},
    }
    labels = {"of": _CLASS}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _remove(kubectl: Kubectl) -> None:
    """Remove the volumes, and before them those who use them: an interrupted run leaves some."""
    delete = ("delete", "--ignore-not-found", WAIT)
    kubectl(*delete, "namespace", HOME)
    remove_sample(Kubectl(kubectl.cluster, "default"))
    kubectl(*delete, "persistentvolumes", f"--selector=of={_CLASS}")
    kubectl(*delete, "storageclass", _CLASS)
    in_node(kubectl.cluster, "rm", "-rf", _FOLDER)


def remove_sample(kubectl: Kubectl) -> None:
    """Delete what the first steps of the README make, with the data that the operator keeps."""
    delete = ("delete", "--ignore-not-found", WAIT)
    if kubectl("get", "crd", "etcdclusters.etcd.example.com", "--ignore-not-found"):
        kubectl(*delete, "etcdcluster/sample")
    for kind in ("pods", "persistentvolumeclaims"):  # the former use the latter
        kubectl(*delete, kind, "--selector=etcd.example.com/cluster=sample")
    kubectl(*delete, "secret/sample-peers", "secret/sample-clients")


@pytest.fixture(scope="session", autouse=True)
def etcd(e2e_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Provide an image of each minor version where the operator looks for it."""
    repository = Settings().etcd_repository
    for minor, version in ETCDS.items():
        programs = *tools.etcd(minor, "etcd", "etcdutl"), *tools.built("etcdctl")
        file = dockerfile(tmp_path_factory.mktemp(minor), *programs)
        stand_in(e2e_cluster, f"{repository}:{version}", file)


def dockerfile(folder: Path, *programs: Path) -> Path:
    """Write what an image of programs without any library is built from."""
    names = [program.name.partition("-")[0] for program in programs]
    for program, name in zip(programs, names, strict=True):
        shutil.copy(program, folder / name)
    file = folder / "Dockerfile"
    file.write_text(
        f"FROM scratch\nCOPY {' '.join(names)} /usr/local/bin/\nENV PATH=/usr/local/bin\n"
    )
    return file


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
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys"},
            "stringData": KEYS,
        },
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
        apply(
            kubectl,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "clients"},
                "data": texts,
            },
            pod(
                "clients",
                image,
                self.command,
                {},
                [],
                mounts,
                [{"name": "clients", "configMap": {"name": "clients"}}],
            ),
        )
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


def apply(kubectl: Kubectl, *manifests: dict[str, Any]) -> None:
    """Apply objects."""
    kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": manifests}),
    )
