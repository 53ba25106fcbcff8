"""The life of an EtcdCluster on real nodes, under clients that write and read without pause.

The tests are its chapters, in their order.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kopf_kit.rig import tools
from kopf_kit.rig.run import CommandError
from kopf_kit.testing import Kubectl
from kopf_kit.testing.requests import wait_until

from examples import tls
from tests.e2e.conftest import VERSIONS, WAIT, Clients
from tests.e2e.offline import apply

ROOT = Path(__file__).parents[2]
SAMPLE = yaml.safe_load((ROOT / "examples" / "sample.yaml").read_text())
CLUSTER = "etcdcluster/sample"


def settled(kubectl: Kubectl) -> dict[str, Any]:
    """Wait until the cluster is as its spec wants it; return it."""

    def is_settled(cluster: dict[str, Any]) -> bool:
        ready = condition(cluster, "Ready")
        generation = cluster["metadata"]["generation"]
        return (ready["status"], ready.get("observedGeneration")) == ("True", generation)

    def look() -> dict[str, Any]:
        cluster: dict[str, Any] = kubectl.get(CLUSTER)
        return cluster

    cluster = wait_until("the cluster to be ready", look, is_settled)
    assert cluster["status"]["ready"] == cluster["spec"]["size"] == len(pods(kubectl))
    return cluster


def condition(cluster: dict[str, Any], type_: str) -> dict[str, Any]:
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == type_), {"status": "Unknown"})


def edit(kubectl: Kubectl, **spec: Any) -> None:
    kubectl("patch", CLUSTER, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def pods(kubectl: Kubectl) -> dict[str, Any]:
    """Return the members' Pods by name."""
    items = kubectl.get("pods", "--selector=app.kubernetes.io/name=etcd")["items"]
    return {pod["metadata"]["name"]: pod for pod in items}


@pytest.fixture(scope="module", autouse=True)
def declared(kubectl: Kubectl) -> None:
    apply(kubectl, {**SAMPLE, "spec": {"size": 1, "version": VERSIONS[0]}})


def test_one_member_serves_and_two_join_it_under_load(kubectl: Kubectl, clients: Clients) -> None:
    settled(kubectl)

    kubectl("scale", CLUSTER, "--replicas=3")

    cluster = settled(kubectl)
    heading, row = kubectl("get", "etcd").splitlines()
    columns = ["NAME", "SIZE", "HEALTHY", "VERSION", "AVAILABLE", "READY", "REASON", "AGE"]
    assert heading.split() == columns
    assert row.split()[:7] == ["sample", "3", "3", VERSIONS[0], "True", "True", "Healthy"]
    assert [member["name"] for member in cluster["status"]["members"]] == list(pods(kubectl))


def healed(kubectl: Kubectl, former: dict[str, Any], name: str) -> dict[str, Any]:
    """Wait until another Pod has taken the place of a former one, and the cluster is well."""
    uid = former[name]["metadata"]["uid"]
    wait_until(
        "another Pod",
        lambda: pods(kubectl),
        lambda now: name in now and now[name]["metadata"]["uid"] != uid,
    )
    return settled(kubectl)


def test_it_is_upgraded_one_minor_version_at_a_time(kubectl: Kubectl) -> None:
    for version in VERSIONS[1:]:
        edit(kubectl, version=version)

        cluster = settled(kubectl)

        assert cluster["status"]["version"] == version
        images = [pod["spec"]["containers"][0]["image"] for pod in pods(kubectl).values()]
        assert {image.rpartition(":")[2] for image in images} == {f"v{version}"}


def test_a_drain_keeps_the_quorum(kubectl: Kubectl) -> None:
    for name in pods(kubectl):
        former = pods(kubectl)
        other = next(member for member in former if member != name)
        evict(kubectl, name)

        refusal = kubectl.refusal(*_eviction(kubectl, other), stdin=_body(other))

        assert "Cannot evict pod as it would violate the pod's disruption budget" in refusal
        healed(kubectl, former, name)


def _eviction(kubectl: Kubectl, pod: str) -> tuple[str, ...]:
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{pod}/eviction"
    return ("create", "--raw", path, "-f", "-")


def _body(pod: str) -> str:
    return json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})


def evict(kubectl: Kubectl, pod: str) -> None:
    """Evict a Pod as `kubectl drain` does: again, while the budget does not count a new member."""

    def answer() -> str:
        try:
            return kubectl(*_eviction(kubectl, pod), stdin=_body(pod))
        except CommandError as error:
            return str(error)

    wait_until(f"the eviction of {pod}", answer, lambda said: "TooManyRequests" not in said)


def test_tls_is_added_and_a_client_outside_connects_by_an_advertised_name(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    addresses = kubectl.get("nodes")["items"][0]["status"]["addresses"]
    node = next(entry["address"] for entry in addresses if entry["type"] == "InternalIP")
    *secrets, etcd = tls.manifests("sample", kubectl.namespace, node)
    apply(kubectl, *secrets)
    edit(kubectl, tls={**etcd["spec"]["tls"], "plainClients": True}, service={"type": "NodePort"})
    settled(kubectl)
    port = kubectl.get("service", "sample-client")["spec"]["ports"][0]["nodePort"]

    edit(kubectl, service={"advertised": [f"{node}:{port}"]})
    settled(kubectl)

    for name, text in secrets[1]["stringData"].items():
        (tmp_path / name).write_text(text)
    [program] = tools.built("etcdctl")
    files = ("--cacert=ca.crt", "--cert=tls.crt", "--key=tls.key")
    command = [str(program), f"--endpoints=https://{node}:{port}", *files]

    def etcdctl(*arguments: str) -> str:
        made = [*command, *arguments]
        return subprocess.check_output(made, cwd=tmp_path, text=True, timeout=60)  # noqa: S603

    # No key is written: the clients inside check that each one is theirs.
    assert "granted with TTL(60s)" in etcdctl("lease", "grant", "60")
    assert etcdctl("get", "k0").startswith("k0\n")
    listed = etcdctl("member", "list").splitlines()
    assert len(listed) == 3
    assert all(f"https://{node}:{port}" in line for line in listed)


def test_the_clients_lost_nothing(clients: Clients) -> None:
    result = clients.stop()

    assert result["wrong"] == []
    assert (result["members"], result["differ"]) == (3, False)
    assert result["acknowledged"] > 100
    print(f"{result['acknowledged']} writes, the longest pause {result['longest']:.1f} s")


def test_backups_go_to_a_volume_and_a_bucket(
    kubectl: Kubectl, clients: Clients, bucket: dict[str, Any]
) -> None:
    revision = clients.put("greeting", "kept")
    apply(
        kubectl,
        yaml.safe_load((ROOT / "examples" / "backup-claim.yaml").read_text()),
        object_(
            "EtcdBackup", "in-volume", cluster="sample", store={"volume": {"claim": "backups"}}
        ),
        object_("EtcdBackup", "in-bucket", cluster="sample", store=bucket),
    )

    kubectl("wait", "--for=condition=Ready", "etcdbackups", "--all", WAIT)

    for backup in kubectl.get("etcdbackups")["items"]:
        (taken,) = backup["status"]["backups"]
        assert (taken["version"], taken["revision"]) == (VERSIONS[-1], revision)


@pytest.mark.parametrize("source", ["in-volume", "in-bucket"])
def test_a_backup_is_restored_in_place(kubectl: Kubectl, clients: Clients, source: str) -> None:
    before = settled(kubectl)["status"]["clusterId"]
    highest = clients.put("greeting", "lost")
    backup = {"backup": {"name": source}}
    apply(
        kubectl, object_("EtcdRestore", source, cluster="sample", confirm="sample", source=backup)
    )

    kubectl("wait", "--for=condition=Ready", f"etcdrestore/{source}", WAIT)

    after = settled(kubectl)["status"]
    assert after["clusterId"] != before
    assert clients.get("greeting") == "kept"
    assert clients.put("more", "") > highest


def object_(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    version = SAMPLE["apiVersion"]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_the_members_tell_what_alerts_and_dashboard_ask_for(clients: Clients) -> None:
    files = (ROOT / "PROJECT", ROOT / "charts" / "etcd-operator" / "templates" / "_operator.tpl")
    text = "".join(file.read_text() for file in files)
    wanted = set(re.findall(r"\b(?:etcd_(?:server|mvcc|disk)|grpc_server)_\w+", text))

    served = set(re.findall(r"^\w+", clients.call("metrics")["text"], re.MULTILINE))

    assert len(wanted) > 5
    assert wanted - served == set()


def test_the_deletion_of_a_cluster_leaves_its_data_and_its_backups(kubectl: Kubectl) -> None:
    members = "--selector=app.kubernetes.io/name=etcd"
    kubectl("delete", CLUSTER, "--timeout=120s")

    kubectl("wait", "--for=delete", "pods,services,poddisruptionbudgets", members, "--timeout=150s")
    phases = {claim["status"]["phase"] for claim in kubectl.get("pvc", members)["items"]}
    assert phases == {"Bound"}
    assert kubectl.get("pvc", "backups")["status"]["phase"] == "Bound"
