"""A backup of a real etcd is taken and restored in Jobs whose containers are real processes.

`Hands` runs the containers of their Pods, one after the other.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kopf_kit.rig import tools, versions
from kopf_kit.testing.kubelet import Trouble
from kopf_kit.testing.requests import Raw, RefusedError
from kopf_kit.testing.world import World

from etcd_operator import agent
from etcd_operator.manifests import DATA
from tests.faults.conftest import Cluster
from tests.faults.nodes import MEMBERS, MOUNT, NAME, UNSHARE, Nodes
from tests.faults.test_members import disk_emptied
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write

__all__ = ["SUBJECTS"]
GROUP = "/apis/etcd.example.com/v1alpha1"
SURVIVES: Raw = {"survivor": {}}
#: The name of another EtcdCluster.
OTHER = "d"
#: The agent, whose paths are those of this machine.
AGENT = """
import sys
from pathlib import Path
from etcd_operator import agent
agent.BACKUPS, agent.DATA, agent.TLS = sys.argv[1:4]
agent.MESSAGE = Path(sys.argv[4])
raise SystemExit(agent.main())
"""


class Hands(Nodes):
    """Nodes that also run the Pods of Jobs."""

    #: Whether a full file system is mounted in place of the volume for backups.
    full = False
    #: What the names of Pods begin with that do not run yet.
    held = "-"
    #: The uids of Pods that run, or have run.
    _run_once: set[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._run_once = set()

    async def _pod(self, pod: Raw, claims: dict[str, Raw]) -> None:
        if pod["metadata"]["labels"].get("app.kubernetes.io/name") != "etcd-agent":
            await super()._pod(pod, claims)
        elif (
            pod["metadata"]["name"].startswith(self.held) or not self._mounts(pod) <= claims.keys()
        ):
            return
        elif (uid := pod["metadata"]["uid"]) not in self._run_once:
            self._run_once.add(uid)
            self.begin(self._carry_out(pod, claims))

    async def _carry_out(self, pod: Raw, claims: dict[str, Raw]) -> None:
        status = await self._run(pod, claims)
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        with contextlib.suppress(RefusedError):  # it is gone
            await self.cluster.patch(f"{self.path('pods', pod['metadata']['name'])}/status", body)

    def _mounts(self, pod: Raw) -> set[str]:
        volumes = pod["spec"].get("volumes", ())
        return {it["persistentVolumeClaim"]["claimName"] for it in volumes if "secret" not in it}

    async def _run(self, pod: Raw, claims: dict[str, Raw]) -> Raw:
        spec = pod["spec"]
        statuses: Raw = {}
        places = {
            volume["name"]: self.folder / volume["secret"]["secretName"]
            if "secret" in volume
            else self.data(claims[volume["persistentVolumeClaim"]["claimName"]])
            for volume in spec.get("volumes", ())
        }
        for place in places.values():
            place.mkdir(exist_ok=True)
        for group in ("initContainers", "containers"):
            for container in spec.get(group, ()):
                uid = pod["metadata"]["uid"]
                code, message = await self._container(container, places, uid)
                ended = {"exitCode": code, "message": message}
                status = {
                    "name": container["name"],
                    "image": "i",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": ended},
                }
                statuses.setdefault(f"{group.removesuffix('s')}Statuses", []).append(status)
                if code:
                    return {"phase": "Failed", **statuses}
        return {"phase": "Succeeded", **statuses}

    async def _container(
        self, container: Raw, places: dict[str, Path], uid: str
    ) -> tuple[int, str]:
        message, data = self.folder / f"message-{uid}", str(places.get("data", self.folder))
        backups = str(places.get("backups", self.folder))
        message.write_text("")
        if container["name"] == "etcdutl":
            minor = container["image"].rpartition(":v")[2].rpartition(".")[0]
            [program] = await asyncio.to_thread(tools.etcd, minor, "etcdutl")
            paths = [part.replace(DATA, data) for part in container["command"][1:]]
            command = [str(program), *(path.replace(f"$({agent.POD})", uid) for path in paths)]
        else:
            tls = str(places.get("tls", self.folder))
            command = [sys.executable, "-c", AGENT, backups, data, tls, str(message)]
        members = (m for m in self.containers.values() if m.runs and not (m.lost or m.ending))
        member = next(members, None)
        door = f"{self.address(member.name)} {NAME}-client.{self.namespace}.svc\n" if member else ""
        hosts = self.folder / f"hosts-{uid}"
        hosts.write_text(self.hosts.read_text() + door)
        env = {entry["name"]: entry.get("value", uid) for entry in container.get("env", ())}
        full = f'mount -t tmpfs -o size=4k full "{backups}" && ' if self.full else ""
        process = await asyncio.create_subprocess_exec(
            *(*UNSHARE, "sh", "-c", full + MOUNT, hosts, *command),
            env={**os.environ, "PYTHONPATH": "operator", **env},
        )
        return await process.wait(), message.read_text()


@pytest.fixture
async def cluster(here: World, tmp_path: Path) -> AsyncIterator[Cluster]:
    here.kubelet.arm(Trouble.LOST)  # the suite's own: `Hands` takes its place
    [etcd] = tools.built("etcd")
    names = (*MEMBERS, f"{OTHER}-1")
    hands = Hands(here.cluster, here.namespace, tmp_path, {"3.7": etcd}, names)
    async with hands.working() as nodes:
        yield Cluster(here, nodes)


async def create(here: World, kind: str, name: str, **spec: Any) -> str:
    """Create an object; return its path."""
    path = f"{GROUP}/namespaces/{here.namespace}/{kind.lower()}s"
    body = {"apiVersion": GROUP.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}}
    await here.cluster.ask("POST", path, {**body, "spec": spec})
    return f"{path}/{name}"


async def until(here: World, path: str, reason: str, text: str = "") -> Raw:
    """Wait until the condition Ready has a reason and says something; return the status."""
    async with here.within(300, f"{path} {reason}"):
        while True:
            status: Raw = (await here.cluster.ask("GET", path)).get("status") or {}
            for condition in status.get("conditions", ()):
                if condition["reason"] == reason and text in condition["message"]:
                    return status
            await asyncio.sleep(0.2)


async def create_claim(here: World, cluster: Cluster) -> Raw:
    """Create the claim of a volume for backups; return the store."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "backups"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await here.cluster.ask("POST", cluster.nodes.path("persistentvolumeclaims"), claim)
    return {"volume": {"claim": "backups"}}


async def files(here: World, cluster: Cluster) -> set[str]:
    """Return the backups in the volume for them."""
    claims = await here.cluster.items(cluster.nodes.path("persistentvolumeclaims"))
    [folder] = [cluster.nodes.data(c) for c in claims if c["metadata"]["name"] == "backups"]
    return {str(file.relative_to(folder)) for file in folder.rglob("*.db")}


@pytest.mark.parametrize("each", [0, pytest.param(1, marks=pytest.mark.long)])
async def test_a_backup_replaces_the_data_or_fills_a_cluster_of_another_name(
    here: World, cluster: Cluster, each: int
) -> None:
    await here.start()
    if each:
        kill_after_each_write(here, cluster, each)
    await cluster.create(1)
    first = await cluster.settles(1)
    store = await create_claim(here, cluster)
    await cluster.clients.ask(f"{cluster.url('c-1')}/v3/kv/put", {"key": "YQ==", "value": "YQ=="})

    backup = await create(here, "EtcdBackup", "once", cluster=NAME, store=store)
    taken = (await until(here, backup, "Complete"))["backups"][0]
    await cluster.clients.ask(f"{cluster.url('c-1')}/v3/kv/put", {"key": "Yg==", "value": "YQ=="})

    source = {"backup": {"name": "once"}}
    restore = await create(here, "EtcdRestore", "back", cluster=NAME, confirm=NAME, source=source)
    status = await until(here, restore, "Complete")

    assert status["backup"] == taken
    after = await cluster.settles(1)
    assert (after["clusterId"] != first["clusterId"], after["members"][0]["name"]) == (True, "c-2")
    await holds(cluster, "c-2")
    restore = await create(here, "EtcdRestore", "to", cluster=OTHER, confirm=OTHER, source=source)
    await here.cluster.ask("POST", here.objects, here.subject.manifest("1", OTHER))
    await until(here, restore, "Complete")
    await here.until_reason("Healthy", OTHER, 180)
    await holds(cluster, f"{OTHER}-1")
    assert (await cluster.status())["members"] == after["members"], "the other one stays"


async def holds(cluster: Cluster, member: str, above: int = 10**9) -> None:
    """Check that a member has just one key, and that its revisions go on above another one."""
    body = {"key": "AA==", "range_end": "AA=="}
    response = await cluster.clients.ask(f"{cluster.url(member)}/v3/kv/range", body)
    assert [pair["key"] for pair in response["kvs"]] == ["YQ=="]
    assert int(response["header"]["revision"]) > above


@pytest.mark.parametrize("each", [0, pytest.param(1, marks=pytest.mark.long)])
async def test_what_one_member_has_outlives_a_lost_quorum(
    here: World, cluster: Cluster, each: int
) -> None:
    await here.start()
    await cluster.create(3)
    before = await cluster.settles(3)
    names = [member["name"] for member in before["members"]]
    await cluster.clients.ask(f"{cluster.url('c-1')}/v3/kv/put", {"key": "YQ==", "value": "YQ=="})
    early = await create(here, "EtcdRestore", "early", cluster=NAME, confirm=NAME, source=SURVIVES)
    await until(here, early, "Refused")
    for name in names[:2]:
        await disk_emptied(cluster, [name])
    await cluster.until("Available", "False", "QuorumLost", patience=60)
    source = SURVIVES
    if each:
        cluster.container(names[2]).kill()  # it starts again, but does not answer without a quorum
        await cluster.until("Available", "False", "Unreachable", patience=60)
        source = {"survivor": {"member": names[2]}}
        kill_after_each_write(here, cluster, each)

    restore = await create(here, "EtcdRestore", "back", cluster=NAME, confirm=NAME, source=source)
    await until(here, restore, "Complete")

    after = await cluster.settles(3, patience=600)
    assert after["clusterId"] == before["clusterId"]
    assert [member["name"] for member in after["members"]] == [names[2], "c-4", "c-5"]
    await holds(cluster, "c-5", above=0)


@pytest.mark.long
async def test_a_backup_to_a_full_volume_is_told_and_tried_again(
    here: World, cluster: Cluster
) -> None:
    assert isinstance(cluster.nodes, Hands)
    await here.start()
    await cluster.create(1)
    await cluster.settles(1)
    store = await create_claim(here, cluster)

    cluster.nodes.full = True
    backup = await create(here, "EtcdBackup", "once", cluster=NAME, store=store)
    await until(here, backup, "Running", "Failed attempts: 1; the last one: the volume has 0 MiB")
    cluster.nodes.full = False

    status = await until(here, backup, "Complete")
    assert len(status["backups"]) == 1


@pytest.mark.long
async def test_before_an_upgrade_a_backup_is_taken(
    here: World, cluster: Cluster, older_etcd: dict[str, Path]
) -> None:
    [older] = [tag.removeprefix("v") for tag in versions.OLDER_ETCD.values() if "v3.6" in tag]
    cluster.nodes.etcd |= older_etcd
    await here.start()
    await cluster.create(1, version=older, maintenance={"backupBeforeUpgrade": "yearly"})
    await cluster.settles(1)
    await cluster.edit(version=VERSION)
    await cluster.until("Ready", "False", "ReferenceMissing")
    assert (await cluster.status())["version"] == older

    store = await create_claim(here, cluster)
    await create(here, "EtcdBackup", "yearly", cluster=NAME, store=store, schedule="0 0 1 1 *")
    status = await cluster.settles(1, patience=240)

    assert status["version"] == VERSION
    assert await files(here, cluster)
    await here.quiet(3)
    kept = await here.cluster.items(f"{GROUP}/namespaces/{here.namespace}/etcdbackups")
    assert [backup["metadata"]["name"] for backup in kept] == ["yearly"]
