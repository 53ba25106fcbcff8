"""What the API server says of the manifests that people write."""

from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World

from tests.faults.test_operator import SUBJECTS

__all__ = ["SUBJECTS"]
S3 = {"s3": {"bucket": "backups"}}
CLUSTER = {"version": "3.6.16", "storage": {"size": "2Gi"}}
BACKUP = {"cluster": "c", "store": S3}
RESTORE = {"cluster": "c", "confirm": "c", "source": {"backup": {"name": "daily"}}}
#: Manifests, what else they have or how they are edited, and what is said then.
REFUSED: list[tuple[str, str, Raw, Raw, str]] = [
    ("EtcdCluster", "n" * 41, CLUSTER, {}, "at most 40 characters and no dot"),
    ("EtcdCluster", "a.b", CLUSTER, {}, "at most 40 characters and no dot"),
    ("EtcdCluster", "c", {"version": "3.5.0"}, {}, "use etcd 3.5.11 or later: 3.5.0 to 3.5.2 may"),
    ("EtcdCluster", "c", {**CLUSTER, "size": -1}, {}, "greater than or equal to 0"),
    ("EtcdCluster", "c", {**CLUSTER, "size": 8}, {}, "less than or equal to 7"),
    ("EtcdCluster", "c", CLUSTER, {"version": "3.8.0"}, "change one minor version at a time"),
    ("EtcdCluster", "c", {"version": "3.7.3"}, {"version": "3.5.35"}, "one minor version at a"),
    ("EtcdCluster", "c", CLUSTER, {"storage": {"className": "x"}}, "class of a cluster cannot be"),
    ("EtcdCluster", "c", CLUSTER, {"storage": {"adopt": "abcde"}}, "adopted cannot be changed"),
    ("EtcdBackup", "b", BACKUP, {"store": {"volume": {"claim": "a"}}}, "name one store"),
    ("EtcdBackup", "b", BACKUP, {"store": {"s3": {"bucket": "other"}}}, "the store of an Etcd"),
    ("EtcdBackup", "b", BACKUP, {"cluster": "d"}, "the cluster of an EtcdBackup cannot be changed"),
    ("EtcdRestore", "r", {**RESTORE, "confirm": "d"}, {}, "must repeat the name of the cluster"),
    ("EtcdRestore", "r", {**RESTORE, "source": {}}, {}, "exactly one of backup, store and"),
    ("EtcdRestore", "r", RESTORE, {"revisionBump": 0}, "create another one"),
]


async def test_what_cannot_be_meant_is_refused_in_a_sentence(here: World) -> None:
    group, answers = "etcd.example.com/v1alpha1", []
    for kind, name, spec, edit, _ in REFUSED:
        path = f"/apis/{group}/namespaces/{here.namespace}/{kind.lower()}s"
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}
        try:
            await here.cluster.ask("POST", path, body)
            await here.cluster.patch(f"{path}/{name}", {"spec": edit})
        except RefusedError as refusal:
            answers.append(refusal.message)
        else:
            answers.append("accepted")
        if edit:
            await here.cluster.remove(f"{path}/{name}")

    missed = [
        (row, text) for row, text in zip(REFUSED, answers, strict=True) if row[-1] not in text
    ]
    assert missed == []
