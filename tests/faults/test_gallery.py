"""The operators of examples/gallery, each killed after every single write."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from aiohttp import web

from examples.gallery import (
    blue_green,
    copied_secret,
    cron_job,
    dns_record,
    ephemeral_volume,
    indexed_job,
    namespace_ttl,
    network_policy,
    pod_per_service,
    restarted_consumer,
)
from kopf_kit.rig.paths import CHECKOUT
from kopf_kit.testing import calls
from kopf_kit.testing.calls import Call, Forward
from kopf_kit.testing.conformance import every_write
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw
from kopf_kit.testing.under_test import Parent, prepare
from kopf_kit.testing.world import World, world
from kopf_runtime import Context, Kind, ObjectMeta, PlanError, Settings, kinds, short_hash

#: After how many writes each is killed, as the page says.
SURVIVED = {
    name: int(kills)
    for name, kills in re.findall(
        r"^\| \[(\w+)\].*\| \d+ \| (\d+) \| [^|]+ \|$",
        (CHECKOUT / "examples" / "gallery" / "README.md").read_text(),
        re.MULTILINE,
    )
}
#: Writes of an operator for one object, at the most.
WRITES = 4
DATA = {"data": {"a": "Yg=="}}


class Gallery(Parent):
    """An operator of one file, of a kind that others define."""

    def __init__(self, module: Any) -> None:
        self.program, self.manager = (module.__file__,), module.manager

    def spec(self, text: str) -> Raw:
        return {}

    @property
    def creates(self) -> Kind:
        return next(iter(self.owned), Kind("", "v1", "events", "Event"))


class Services(Gallery):
    """A Pod per Service; a text is a port."""

    quick = ("create", "edit", "heal")

    def __init__(self) -> None:
        super().__init__(pod_per_service)

    def spec(self, text: str) -> Raw:
        return {"ports": [{"port": 1000 + sum(text.encode())}], "clusterIP": "None"}

    def manifest(self, text: str, name: str) -> Raw:
        meta = {"name": name, "labels": {"debug": "yes"}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": self.spec(text)}

    @property
    def writes(self) -> Mapping[str, int]:
        return {"create": 2, "edit": 3, "heal": 2}  # with Events, but no status

    def status_facts(self, found: Raw) -> dict[str, tuple[Any, Any]]:
        return {}

    def wrong(self, found: Raw, child: Raw, text: str) -> list[str]:
        env = child["spec"]["containers"][0]["env"]
        name = found["metadata"]["name"]
        wanted = f"{name}:{self.spec(text)['ports'][0]['port']}"
        return [] if env[0]["value"] == wanted else [f"{name}: {env}"]


@pytest.mark.parametrize("scenario", Services.quick)
async def test_a_pod_per_service(cluster: Cluster, scenario: str) -> None:
    await every_write.test_killed_after_every_single_write(cluster, Services(), scenario)


def test_a_service_without_ports_has_no_pod() -> None:
    meta = ObjectMeta("one", "uid", "1")
    with pytest.raises(PlanError, match="add one to"):
        [*pod_per_service.desired(pod_per_service.Service(meta), Context(Settings()))]


class Volumes(Gallery):
    """A claim per object; a text is a size."""

    quick = ("create",)

    def __init__(self) -> None:
        super().__init__(ephemeral_volume)

    def spec(self, text: str) -> Raw:
        return {"size": f"{len(text)}Gi"}

    @property
    def writes(self) -> Mapping[str, int]:
        return {"create": 2}


async def test_an_ephemeral_volume(cluster: Cluster) -> None:
    await prepare(cluster, Volumes())
    await every_write.test_killed_after_every_single_write(cluster, Volumes(), "create")


@pytest.mark.parametrize("subject", [Services(), Volumes()], ids=str)
def test_the_page_says_how_many_writes_they_survive(subject: Gallery) -> None:
    kills = sum(subject.writes[scenario] for scenario in subject.quick)
    assert kills == SURVIVED[Path(subject.program[0]).stem]


async def survived(
    here: World,
    act: Callable[[int], Awaitable[object]],
    is_right: Callable[[int], Awaitable[bool]],
) -> None:
    """Kill the operator after each write, and wait each time until all is right."""
    await here.start(everywhere=True)
    every = list[Any]()
    for number in range(1, WRITES + 1):

        async def crash(_: Call, forward: Forward) -> None:
            await forward()
            here.operator.send(Signals.SIGKILL)

        armed = here.proxy.arm(calls.nth_write(number), crash, may_miss=True)
        await act(number)
        async with asyncio.timeout(120):
            while not await is_right(number):
                await asyncio.sleep(0.1)
        await here.quiet()
        every.append(armed)
        if not armed.hits:
            break  # there is no such write, and no later one
    hits = sum(armed.hits for armed in every)
    assert hits >= SURVIVED[Path(here.subject.program[0]).stem]
    assert here.operator.exits == [-Signals.SIGKILL] * hits


async def labelled(cluster: Cluster, **labels: str) -> str:
    name = await cluster.new_namespace()
    await cluster.patch(kinds.NAMESPACE.path(None, name), {"metadata": {"labels": labels}})
    return name


async def test_a_network_policy_per_namespace(cluster: Cluster) -> None:
    made: dict[int, str] = {}

    async def act(number: int) -> None:
        made[number] = await labelled(cluster, isolated="yes")

    async def is_right(number: int) -> bool:
        path = kinds.NETWORK_POLICY.path(made[number], "from-here-alone")
        return await cluster.find(path) is not None

    async with world(cluster, Gallery(network_policy)) as here:
        await survived(here, act, is_right)
        await here.cluster.patch(
            kinds.NAMESPACE.path(None, made[1]), {"metadata": {"labels": {"isolated": None}}}
        )
        async with asyncio.timeout(60):
            while await is_right(1):
                await asyncio.sleep(0.1)


@pytest.mark.long
async def test_the_end_of_a_namespace(cluster: Cluster) -> None:
    made: dict[int, str] = {}

    async def act(number: int) -> None:
        made[number] = await labelled(cluster, ttl="1")

    async def is_right(number: int) -> bool:
        found = await cluster.find(kinds.NAMESPACE.path(None, made[number]))
        return found is None or "deletionTimestamp" in found["metadata"]

    async with world(cluster, Gallery(namespace_ttl)) as here:
        later = await labelled(cluster, ttl="100000")
        await survived(here, act, is_right)
        kept = await cluster.ask("GET", kinds.NAMESPACE.path(None, later))
        assert "deletionTimestamp" not in kept["metadata"]


async def test_a_copied_secret(cluster: Cluster) -> None:
    made: dict[int, str] = {}
    source = kinds.SECRET.path(copied_secret.SOURCE)
    meta = {"name": copied_secret.SOURCE}
    await cluster.ask("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": meta})
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shared"}}
    await cluster.ask("POST", source, {**body, **DATA})

    async def act(number: int) -> None:
        made[number] = await labelled(cluster, copies="shared")
        change = {"data": {"a": f"YWE{number}"}}
        await cluster.patch(f"{source}/shared", change)

    async def is_right(number: int) -> bool:
        wanted = (await cluster.ask("GET", f"{source}/shared"))["data"]
        copies = [await cluster.find(kinds.SECRET.path(n, "shared")) for n in made.values()]
        return all(copy is not None and copy["data"] == wanted for copy in copies)

    async with world(cluster, Gallery(copied_secret)) as here:
        await survived(here, act, is_right)


@pytest.mark.long
async def test_a_restarted_consumer(cluster: Cluster) -> None:
    namespace = await cluster.new_namespace()
    deployments, secrets = (k.path(namespace) for k in (kinds.DEPLOYMENT, kinds.SECRET))
    hashes: dict[int, str] = {}
    labels = {"app": "web"}
    container = {"name": "web", "image": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {restarted_consumer.NAMED: "tls"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}}
    await cluster.ask("POST", secrets, {**body, **DATA})
    await cluster.ask("POST", deployments, deployment)

    async def act(number: int) -> None:
        await cluster.patch(f"{secrets}/tls", {"data": {"a": f"YWE{number}"}})

    async def is_right(number: int) -> bool:
        template = (await cluster.ask("GET", f"{deployments}/web"))["spec"]["template"]
        annotations = template["metadata"].get("annotations") or {}
        hashes[number] = annotations.get(restarted_consumer.HASH, "")
        return len({*hashes.values(), ""}) == number + 1

    async with world(cluster, Gallery(restarted_consumer)) as here:
        await survived(here, act, is_right)


class BlueGreens(Gallery):
    """A Service before a Deployment per image; a text is an image."""

    pod_security = "privileged"

    def spec(self, text: str) -> Raw:
        return {"image": text, "replicas": 1}


@pytest.mark.long
async def test_a_blue_green_deployment(cluster: Cluster) -> None:
    subject = BlueGreens(blue_green)
    await prepare(cluster, subject)

    async def act(number: int) -> None:
        await here.edit(f"image:{number}")

    async def is_right(number: int) -> bool:
        found = await cluster.find(kinds.SERVICE.path(here.namespace, "hello"))
        color = found["spec"]["selector"]["color"] if found else ""
        deployments = await cluster.items(kinds.DEPLOYMENT.path(here.namespace))
        names = [each["metadata"]["name"] for each in deployments]
        assert not found or f"hello-{color}" in names, "the Service leads to no Deployment"
        return color == short_hash(f"image:{number}") and names == [f"hello-{color}"]

    async with world(cluster, subject) as here:
        await here.create("image:0")
        await survived(here, act, is_right)


class IndexedJobs(Gallery):
    """Three Pods per object, two at a time."""

    pod_security = "privileged"

    def spec(self, text: str) -> Raw:
        return {"completions": 3, "parallelism": 2}


@pytest.mark.long
async def test_an_indexed_job(cluster: Cluster) -> None:
    subject, most = IndexedJobs(indexed_job), 0
    await prepare(cluster, subject)

    async def act(number: int) -> None:
        await here.create("", f"job-{number}")

    async def is_right(number: int) -> bool:
        nonlocal most
        pods = await cluster.items(kinds.POD.path(here.namespace))
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        most = max(most, len(running))
        for pod in running:
            path = f"{kinds.POD.path(here.namespace, pod['metadata']['name'])}/status"
            await cluster.patch(path, {"status": {"phase": "Succeeded"}})
        found = await cluster.ask("GET", here.object(f"job-{number}"))
        return len(pods) == 3 * number and (found.get("status") or {}).get("done") is True

    async with world(cluster, subject) as here:
        await survived(here, act, is_right)
        assert most <= 2


class Schedules(Gallery):
    """A Job every two seconds."""

    pod_security = "privileged"

    def spec(self, text: str) -> Raw:
        return {"seconds": 2}


@pytest.mark.long
async def test_a_cron_job(cluster: Cluster) -> None:
    subject = Schedules(cron_job)
    await prepare(cluster, subject)

    async with world(cluster, subject) as here:
        await here.start()
        await here.create("", "every-two")

        async def crash(_: Call, forward: Forward) -> None:
            await forward()
            here.operator.send(Signals.SIGKILL)

        for number in range(1, WRITES + 1):
            await here.met(here.proxy.arm(calls.nth_write(number), crash))
            made = here.children_made()
            async with here.within(60, "the next Job"):
                while here.children_made() == made:
                    await asyncio.sleep(0.1)
        names = [json.loads(write.body)["metadata"]["name"] for write in here.child_writes("POST")]
        assert len({*names}) == len(names)  # none runs twice, though the last ones alone are kept
        async with here.within(60, "the oldest ones go"):
            while len(await cluster.items(here.children)) > cron_job.KEPT:
                await asyncio.sleep(0.1)
        assert here.operator.exits == [-Signals.SIGKILL] * SURVIVED["cron_job"]


class Records(Gallery):
    """A record at a provider of the test; a text is an address."""

    url = ""

    def flags(self, *given: Any, **more: Any) -> tuple[str, ...]:
        return *super().flags(*given, **more), f"--provider={self.url}"

    def spec_of(self, name: str, text: str) -> Raw:
        return {"host": f"{name}.example.org", "address": text}


async def test_a_record_outside_the_cluster(cluster: Cluster) -> None:
    subject = Records(dns_record)
    await prepare(cluster, subject)
    known = dict[str, str]()

    async def provide(request: web.Request) -> web.Response:
        host = request.match_info["host"]
        if request.method == "PUT":
            known[host] = (await request.json())["address"]
        else:
            known.pop(host, None)
        return web.Response()

    app, port = web.Application(), free_port()
    app.router.add_route("*", "/{host}", provide)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    subject.url = f"http://127.0.0.1:{port}"

    async def act(number: int) -> None:
        await here.create(f"192.0.2.{number}", f"record-{number}")
        if number > 1:
            await here.delete(f"record-{number - 1}")

    async def is_right(number: int) -> bool:
        return known == {f"record-{number}.example.org": f"192.0.2.{number}"}

    async with world(cluster, subject) as here:
        await survived(here, act, is_right)
    await runner.cleanup()
