"""Provides what EtcdClusters need on a kind cluster where no image registry can be reached.

`make deploy` and the end-to-end tests use it: images of etcd, where the operator looks for them,
and volumes that a program of any user may write to.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kopf_kit.rig import public_images, tools, versions
from kopf_kit.testing import Cluster, Kubectl, cluster_up, in_node, stand_in
from kopf_kit.testing.installed import HOME

from etcd_operator.settings import Settings

ETCDS = {**versions.OLDER_ETCD, versions.NEWEST_ETCD: versions.ETCD}
#: Enough for all members ever: a volume is used once.
VOLUMES = 19
CLASS = "etcd-e2e"
FOLDER = f"/var/lib/{CLASS}"


def provide_images(cluster: Cluster) -> None:
    """Provide an image of each minor version where the operator looks for it."""
    repository = Settings().etcd_repository
    for minor, version in ETCDS.items():
        programs = *tools.etcd(minor, "etcd", "etcdutl"), *tools.built("etcdctl")
        with tempfile.TemporaryDirectory() as folder:
            file = dockerfile(Path(folder), *programs)
            stand_in(cluster, f"{repository}:{version}", file)


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


def provide_volumes(cluster: Cluster) -> None:
    """Provide volumes of a class of their own, which becomes the default one."""
    names = [f"{CLASS}-{n}" for n in range(VOLUMES)]
    in_node(cluster, "install", "-d", "-m", "777", *(f"{FOLDER}/{name}" for name in names))
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    apply(Kubectl(cluster, HOME), storage_class, *map(_volume, names))


def _volume(name: str) -> dict[str, Any]:
    spec = {
        "storageClassName": CLASS,
        "capacity": {"storage": "8Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"{FOLDER}/{name}", "type": "Directory"},
    }
    metadata = {"name": name, "labels": {"of": CLASS}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def apply(kubectl: Kubectl, *manifests: dict[str, Any]) -> None:
    """Apply objects."""
    objects = {"kind": "List", "apiVersion": "v1", "items": manifests}
    kubectl("apply", "-f", "-", stdin=json.dumps(objects))


def main() -> None:
    """Provide all of it, unless images can be pulled; then there are volumes, too.

    Print what tells kubectl about the cluster.
    """
    cluster = cluster_up()
    if cluster.registry is not None and not public_images.are_in_reach():
        provide_images(cluster)
        provide_volumes(cluster)
    print(cluster.export)


if __name__ == "__main__":
    main()
