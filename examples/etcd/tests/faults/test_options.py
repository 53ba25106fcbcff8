"""What a user can ask of an EtcdCluster beyond its size: other versions, TLS, users, a quota."""

import asyncio
import contextlib
import signal
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kopf_kit.rig import versions
from kopf_kit.testing.requests import RefusedError
from kopf_kit.testing.world import World

from examples import tls
from tests.faults.conftest import Cluster
from tests.faults.nodes import NAME
from tests.faults.test_members import volume_gone
from tests.faults.test_operator import SUBJECTS, VERSION, kill_after_each_write

__all__ = ["SUBJECTS"]
pytestmark = pytest.mark.long
KEY = b64encode(b"key").decode()


async def keep(here: World, name: str, **texts: str) -> None:
    """Create a Secret."""
    body = {"metadata": {"name": name}, "stringData": texts}
    await here.cluster.ask("POST", f"/api/v1/namespaces/{here.namespace}/secrets", body)


async def edit_secret(here: World, name: str, **texts: str) -> None:
    path = f"/api/v1/namespaces/{here.namespace}/secrets/{name}"
    await here.cluster.patch(path, {"stringData": texts})


class Certificates:
    """The Secrets of a cluster with TLS; its members see them as a kubelet shows them."""

    def __init__(self, here: World, cluster: Cluster) -> None:
        self.here, self.folder, self._count = here, cluster.nodes.folder, 0
        self.host = f"{NAME}.{here.namespace}.svc"
        self.signers = {name: tls.authority(days=2) for name in ("old", "new")}
        self.texts = [signer.pem for signer in self.signers.values()]

    async def present(
        self, signer: str, trusted: str, *, create: bool = False, days: int = 2
    ) -> None:
        """Give both Secrets new leaves, and these authorities."""
        self._count += 1
        for secret in ("peers", "clients"):
            folder = self.folder / f"{secret}-{self._count}"
            texts = tls.leaf(self.signers[signer], f"*.{self.host}", days=days) | {
                "ca.crt": trusted
            }
            folder.mkdir()
            for name, text in texts.items():
                (folder / name).write_text(text)
            link = self.folder / "link"
            link.symlink_to(folder)
            link.replace(self.folder / secret)  # both files at once
            await (keep if create else edit_secret)(self.here, secret, **texts)

    @property
    def options(self) -> dict[str, Any]:
        """Return how clients connect that have TLS."""
        return {"ssl": self.context(), "server_hostname": f"any.{self.host}"}

    def context(self) -> ssl.SSLContext:
        """Return what a client needs that trusts both authorities, with the present leaf."""
        context = ssl.create_default_context(cadata="".join(self.texts))
        leaf = self.folder / "clients"
        context.load_cert_chain(leaf / "tls.crt", leaf / "tls.key")
        return context

    async def shown(self, url: str) -> bytes:
        """Return the certificate that a member shows."""
        host, _, port = url.removeprefix("https://").partition(":")
        _, writer = await asyncio.open_connection(
            host, int(port), ssl=self.context(), server_hostname=f"any.{self.host}"
        )
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return shown


@pytest.fixture
async def certified(here: World, cluster: Cluster) -> Certificates:
    """A cluster with one member and TLS."""
    cluster.nodes.between = False  # a proxy would need a certificate of its own
    secrets = Certificates(here, cluster)
    await secrets.present("old", secrets.texts[0], create=True)
    cluster.clients.options = secrets.options
    await here.start()
    await cluster.create(1, tls={"peerSecret": "peers", "clientSecret": "clients"})
    await cluster.settles(1)
    await cluster.edit(size=3)
    await cluster.settles(3)
    return secrets


@pytest.mark.parametrize(
    ("size", "turn"),
    [*((3, turn) for turn in ("pods", "urls", "listeners", "")), (2, "urls"), (2, "listeners")],
)
async def test_tls_is_added_while_one_is_lost_and_clients_write(
    here: World, cluster: Cluster, size: int, turn: str
) -> None:
    """One is lost in the middle of a turn, or none is; then no client waits long."""
    cluster.nodes.between = False  # a proxy would need a certificate of its own
    secrets = Certificates(here, cluster)
    await secrets.present("old", secrets.texts[0], create=True)
    await here.start()
    await cluster.create(size)
    first = await cluster.settles(size)
    kill_after_each_write(here, cluster, 9)
    cluster.clients.longest = 0.0

    async def due() -> bool:
        """Return whether some members have made the turn, and others have not."""
        if turn == "urls":
            listed = await cluster.clients.ask(f"{cluster.url_of_any()}/v3/cluster/member/list", {})
            done = [member["peerURLs"][0].startswith("https") for member in listed["members"]]
        else:
            pods = await here.cluster.items(cluster.nodes.path("pods"))
            texts = [" ".join(pod["spec"]["containers"][0]["command"]) for pod in pods]
            flag = "listen-peer-urls=http:"
            after = "listen-peer-urls=https:" if turn == "listeners" else f"{flag}//0.0.0.0:2380,"
            done = [after in text for text in texts]
        return any(done) and not all(done)

    spec = {"peerSecret": "peers", "clientSecret": "clients"}
    await cluster.edit(tls={**spec, "plainClients": True})
    if turn:
        async with cluster.within(200, "some have made the turn"):
            while not await due():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        here.operator.send(signal.SIGKILL)
        await volume_gone(cluster, [sorted(cluster.ready())[0]])
    after = await cluster.settles(size, patience=300)
    assert after["clusterId"] == first["clusterId"]
    stay = {member["id"] for member in after["members"]} & {m["id"] for m in first["members"]}
    assert len(stay) == (size - 1 if turn else size)

    cluster.clients.options = secrets.options
    await cluster.edit(tls={**spec, "plainClients": False})
    await cluster.settles(size, patience=300)
    url = cluster.url(cluster.ready()[0]).replace("https", "http")
    with pytest.raises(aiohttp.ClientError):
        await cluster.nodes.session.post(f"{url}/v3/kv/range", json={"key": KEY})
    assert turn or cluster.clients.longest < 10
    await cluster.check()
    with pytest.raises(RefusedError, match="TLS can be added, but not removed"):
        await cluster.edit(tls=None)


@pytest.mark.parametrize(("size", "names"), [(2, ["peers"]), (2, ["peers", "clients"])])
async def test_tls_that_members_do_not_trust_costs_no_quorum_and_is_corrected(
    here: World, cluster: Cluster, size: int, names: list[str]
) -> None:
    cluster.nodes.between = False
    secrets = Certificates(here, cluster)
    old, new = secrets.texts
    await secrets.present("old", old, create=True)
    for name in names:
        (secrets.folder / name / "ca.crt").write_text(new)  # which has not signed it
        await edit_secret(here, name, **{"ca.crt": new})
    await here.start()
    await cluster.create(size)
    first = await cluster.settles(size)
    spec = {"peerSecret": "peers", "clientSecret": "clients", "plainClients": True}
    cluster.clients.longest = 0.0

    await cluster.edit(tls=spec)
    why = "is not healthy yet" if names == ["peers"] else "CERTIFICATE_VERIFY_FAILED"
    told = ""
    async with cluster.within(200, "one is cut off"):
        while why not in told:
            await asyncio.sleep(0.2)
            told = (await cluster.condition("Ready"))["message"]
    await here.quiet(10)
    assert "by a certificate that all trust" in told
    assert (await cluster.condition("Available"))["status"] == "True"
    await secrets.present("old", old)

    after = await cluster.settles(size, patience=300)
    assert after["clusterId"] == first["clusterId"]
    assert cluster.clients.longest < 10
    await cluster.check()


async def test_leaves_and_their_authority_are_renewed_while_clients_write(
    here: World, cluster: Cluster, certified: Certificates
) -> None:
    old, new = certified.texts
    pods = [container.name for container in cluster.nodes.containers.values()]
    first = {name: await certified.shown(cluster.url(name)) for name in pods}

    await certified.present("old", old)
    await here.quiet(5)
    for name in pods:
        assert await certified.shown(cluster.url(name)) != first[name], "without a restart"
    assert [container.name for container in cluster.nodes.containers.values()] == pods

    for signer, trusted, rolls in (
        ("old", old + new, True),
        ("new", old + new, False),
        ("new", new, True),
    ):
        before = set(cluster.nodes.containers)
        await certified.present(signer, trusted)
        async with here.within(300, "all members trust the others"):
            while rolls and before & set(cluster.nodes.containers):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await cluster.settles(3, patience=120)
        cluster.clients.options["ssl"] = certified.context()

    assert cluster.clients.longest < 10
    await cluster.check()


async def test_c3_a_key_of_another_certificate_is_told_and_nothing_is_changed(
    here: World, cluster: Cluster, certified: Certificates
) -> None:
    before, key = await cluster.status(), tls.leaf(certified.signers["old"], "other")["tls.key"]
    await edit_secret(here, "clients", **{"tls.key": key})

    told = await cluster.until("Ready", "False", "SecretInvalid", patience=120)
    assert "Secret clients: " in told["message"]
    await certified.present("old", certified.texts[0])
    assert (await cluster.settles(3, patience=120))["members"] == before["members"]
    await cluster.check()


async def test_users_are_asked_for_and_the_operator_is_root(here: World, cluster: Cluster) -> None:
    await keep(here, "root", password="secret")  # noqa: S106
    await here.start()
    await cluster.create(1, auth={"rootSecret": "root"})
    await cluster.settles(1)
    await cluster.clients.stop()

    with pytest.raises(aiohttp.ClientResponseError, match="400"):
        await cluster.clients.ask(f"{cluster.url(f'{NAME}-1')}/v3/kv/range", {"key": KEY})
    await cluster.edit(size=3)
    await cluster.settles(3)
    await here.restart()
    await cluster.edit(size=1)
    await cluster.settles(1)


async def test_f14_auth_that_somebody_enables_is_told_and_taken_over(
    here: World, cluster: Cluster
) -> None:
    await cluster.clients.stop()
    await keep(here, "root", password="secret")  # noqa: S106
    await here.start()
    await cluster.create(1)
    before = await cluster.settles(1)
    user, role = {"name": "root", "password": "secret"}, {"user": "root", "role": "root"}
    steps = [("user/add", user), ("role/add", {"name": "root"}), ("user/grant", role)]
    for path, body in [*steps, ("enable", {})]:
        await cluster.clients.ask(f"{cluster.url(f'{NAME}-1')}/v3/auth/{path}", body)

    told = await cluster.until("Ready", "False", "AuthRequired")
    assert "set spec.auth.rootSecret" in told["message"]
    assert (await cluster.condition("Available"))["status"] == "Unknown", "no alert: it may serve"

    await cluster.edit(auth={"rootSecret": "root"})
    assert (await cluster.settles(1))["members"] == before["members"]


async def test_a_cluster_that_hibernates_comes_back_with_all_that_was_acknowledged(
    here: World, cluster: Cluster
) -> None:
    await here.start()
    await cluster.create(3)
    before = await cluster.settles(3)
    kill_after_each_write(here, cluster, 2)

    await cluster.edit(size=0)
    await cluster.until("Ready", "True", "Hibernated")
    assert (await cluster.condition("Available"))["status"] == "Unknown"
    assert await here.cluster.items(cluster.nodes.path("pods")) == []
    assert (await cluster.status())["members"] == before["members"]
    await cluster.edit(size=3)

    after = await cluster.settles(3, patience=300)
    assert (after["members"], after["clusterId"]) == (before["members"], before["clusterId"])
    await cluster.edit(size=0)
    await cluster.until("Ready", "True", "Hibernated")
    await cluster.edit(size=1)
    assert (await cluster.settles(1, patience=300))["clusterId"] == before["clusterId"]
    await cluster.check()


async def test_roots_password_is_changed(here: World, cluster: Cluster) -> None:
    await cluster.clients.stop()
    await keep(here, "root", password="secret")  # noqa: S106
    await here.start()
    await cluster.create(1, auth={"rootSecret": "root"})
    await cluster.settles(1)

    await edit_secret(here, "root", password="next")  # noqa: S106
    await cluster.until("Ready", "False", "PasswordRefused", patience=240)
    await edit_secret(here, "root", previousPassword="secret")
    await cluster.until("Ready", "True", "Healthy", patience=240)

    url = f"{cluster.url(f'{NAME}-1')}/v3/auth/authenticate"
    await cluster.clients.ask(url, {"name": "root", "password": "next"})
    with pytest.raises(aiohttp.ClientResponseError, match="400"):
        await cluster.clients.ask(url, {"name": "root", "password": "secret"})


async def test_a_full_quota_is_told_and_cured_once_there_is_space(
    here: World, cluster: Cluster
) -> None:
    await cluster.clients.stop()
    await here.start()
    await cluster.create(3, options={"quotaBackendBytes": 2**24})
    await cluster.settles(3)
    url = cluster.url(cluster.ready()[0])
    large: Any = {"key": KEY, "value": b64encode(b"x" * 2**20).decode()}

    async with here.within(90, "the alarm"):
        while (await cluster.condition("Healthy"))["status"] == "True":
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                await cluster.clients.ask(f"{url}/v3/kv/put", large)
    # One that took too long was written, too.
    got = await cluster.clients.ask(f"{url}/v3/kv/range", {"key": KEY, "keys_only": True})
    revision = got["header"]["revision"]
    await cluster.clients.ask(f"{url}/v3/kv/compaction", {"revision": revision, "physical": True})

    await cluster.until("Healthy", "True", "NoAlarm", patience=120)
    await cluster.settles(3)
    await cluster.clients.ask(f"{url}/v3/kv/put", {"key": KEY, "value": KEY})


async def test_files_are_defragmented_and_data_that_differ_are_told(
    here: World, cluster: Cluster
) -> None:
    await cluster.clients.stop()
    await here.start()
    await cluster.create(3, maintenance={"compareHours": 0})
    before = await cluster.settles(3)
    url, value = cluster.url(cluster.ready()[0]), b"unmistakable" * 2**15
    for _ in range(30):
        pair = {"key": KEY, "value": b64encode(value).decode()}
        revision = (await cluster.clients.ask(f"{url}/v3/kv/put", pair))["header"]["revision"]
    await cluster.clients.ask(f"{url}/v3/kv/compaction", {"revision": revision, "physical": True})
    files = [await _file(cluster, member["name"]) for member in before["members"]]

    await cluster.edit(maintenance={"defragmentHours": 1, "compareHours": 0})
    async with here.within(120, "all files are small"):
        while any(file.stat().st_size > 5 * 2**20 for file in files):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    status = await cluster.settles(3)
    assert len(status["defragmented"]) == 3
    ids = [member["id"] for member in before["members"]]
    assert [member["id"] for member in status["members"]] == ids

    with files[2].open("r+b") as file:  # as a bad disk, or a bug of etcd
        place = file.read().index(b"unmistakable")
        file.seek(place)
        file.write(b"U")
    # At the revision of a compaction, etcd answers with the hash of that time.
    await cluster.clients.ask(f"{url}/v3/kv/put", {"key": "YQ==", "value": "YQ=="})
    await cluster.edit(maintenance={"defragmentHours": 1, "compareHours": 1})
    condition = await cluster.until("Healthy", "False", "DataDiffer", patience=120)

    assert all(f"{member['name']} " in condition["message"] for member in before["members"])
    await here.quiet(3)
    assert (await cluster.status())["members"] == before["members"], "nothing is deleted"
    claim = await cluster.claim(before["members"][2]["name"])
    path = cluster.nodes.path
    await here.cluster.remove(path("persistentvolumeclaims", claim["metadata"]["name"]))
    await here.cluster.remove(path("pods", before["members"][2]["name"]))
    await cluster.until("Healthy", "True", "NoAlarm", patience=180)
    await cluster.settles(3)


async def _file(cluster: Cluster, member: str) -> Path:
    return cluster.nodes.data(await cluster.claim(member)) / "data" / "member" / "snap" / "db"


@pytest.mark.parametrize("each", [0, 1])
async def test_versions_go_up_and_down_one_at_a_time_under_load(
    here: World, cluster: Cluster, older_etcd: dict[str, Path], each: int
) -> None:
    cluster.nodes.etcd |= older_etcd
    first, second = (version.removeprefix("v") for version in versions.OLDER_ETCD.values())
    await here.start()
    await cluster.create(3, version=first)
    await cluster.settles(3)
    if each:
        kill_after_each_write(here, cluster, each)

    for version in (second, VERSION, second, first):
        await cluster.edit(version=version)
        status = await cluster.settles(3, patience=900)
        assert status["version"] == version

    await cluster.check()
