"""A real API server asks the operator before a write, and trusts the certificate that it makes."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from signal import Signals
from typing import Any

import pytest

from faults.test_versions import BETA, NEWEST, Festivals, festival
from kopf_kit.project import registered
from kopf_kit.testing.api_server import granted
from kopf_kit.testing.process import free_port
from kopf_kit.testing.requests import Cluster, Raw, RefusedError
from kopf_kit.testing.under_test import Subject
from kopf_kit.testing.world import ELECT, World
from kopf_runtime.declaring.kinds import (
    CONFIG_MAP,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from runtime import permits

pytestmark = pytest.mark.api

NAME = "festival-webhooks"
SPACE = "default"  # the operator's own, outside of a cluster
STORED = SECRET.path(SPACE, NAME)
CONFIGURATIONS = {
    "validating": VALIDATING_WEBHOOK_CONFIGURATION,
    "mutating": MUTATING_WEBHOOK_CONFIGURATION,
}
FLAGS = (f"--webhook-secret={NAME}", f"--webhook-service={NAME}", f"--webhook-configuration={NAME}")


class Rotating(Festivals):
    """An operator whose certificate is replaced every few seconds."""

    program = (
        "-c",
        """
from kopf_runtime.endpoints import certificates
from runtime import festivals

certificates.LIFE, certificates.RENEW = 3600.0, 3598.0
certificates.LOOK, certificates.TRUST, certificates.TRUST_SETTLES = 0.3, 1.0, 3.0
raise SystemExit(festivals.manager.run())
""",
    )


SUBJECT = Rotating()


class Permits(Subject):
    """An operator that has kopf's own handlers beside its controller."""

    program = (permits.__file__,)
    manager = permits.manager
    creates = CONFIG_MAP

    def spec(self, text: str) -> Raw:
        return {"holder": text}


class Balancer:
    """A Service: passes connections on to a replica that listens."""

    def __init__(self) -> None:
        self.port, self.replicas = free_port(), [free_port(), free_port()]

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in self.replicas:
            with contextlib.suppress(OSError):
                theirs = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.wait(
                    [
                        asyncio.ensure_future(_copy(reader, theirs[1])),
                        asyncio.ensure_future(_copy(theirs[0], writer)),
                    ]
                )
                break
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


def rights(user: str) -> list[Raw]:
    """Return what the operator may, beside what it may do with its objects: no more than needed."""

    def rule(group: str, plural: str, name: str, *verbs: str) -> Raw:
        named = {"apiGroups": [group], "resources": [plural], "resourceNames": [name]}
        return {**named, "verbs": ["get", "patch", *verbs]}

    admission = [(kind.group, kind.plural, NAME) for kind in CONFIGURATIONS.values()]
    crd = "apiextensions.k8s.io", "customresourcedefinitions", str(NEWEST)
    wide = [rule(group, plural, name) for group, plural, name in (*admission, crd)]
    own = [rule("", "secrets", NAME, "create")]
    return [*granted(NAME, own, user, SPACE), *granted(NAME, wide, user, None)]


def configurations(here: World, where: Raw) -> Iterator[Raw]:
    """Yield the configurations of these functions, asked at a Service about one namespace."""
    functions = registered.declared(here.subject.manager.webhooks)
    within = {"matchLabels": {"kubernetes.io/metadata.name": here.namespace}}
    for name, kind in CONFIGURATIONS.items():
        webhooks = [
            function.entry
            | {"clientConfig": {"service": where | {"path": function.path}}}
            | {"namespaceSelector": within}
            for function in functions
            if function.kind == name
        ]
        meta = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": NAME}}
        yield meta | {"webhooks": webhooks}


@pytest.fixture
async def service(here: World) -> AsyncIterator[Balancer]:
    """Have the API server ask at a Service, whose certificate it does not know yet."""
    balancer = Balancer()
    server = await asyncio.start_server(balancer.pass_on, "127.0.0.1", balancer.port)
    where = {"namespace": SPACE, "name": NAME, "port": balancer.port}
    await here.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": SPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
    )
    for manifest in configurations(here, where):
        await here.cluster.put(manifest)
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "url": None,
                "caBundle": None,
                "service": where | {"path": "/convert"},
            },
        },
    }
    if here.subject.versions:
        await here.cluster.patch(here.subject.crd, {"spec": {"conversion": conversion}})
    await here.grant(rights(here.subject.user))
    yield balancer
    for kind in CONFIGURATIONS.values():
        await here.cluster.remove(kind.path(name=NAME))
    await here.cluster.remove(here.subject.kind.path(here.namespace))
    await here.cluster.patch(
        here.subject.crd, {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    )
    for path in (STORED, f"/api/v1/namespaces/{SPACE}/services/{NAME}"):
        await here.cluster.remove(path)
    server.close()


def flags(balancer: Balancer, replica: int) -> tuple[str, ...]:
    address = f"--webhook-bind-address=127.0.0.1:{balancer.replicas[replica]}"
    return (*ELECT, *FLAGS, address)


async def try_create(cluster: Cluster, namespace: str, **spec: Any) -> Raw:
    """Have all that is asked be asked: this version is converted, then defaulted and validated."""
    path = f"{BETA.path(namespace)}?dryRun=All"
    return await cluster.ask("POST", path, festival(BETA, "tried", **spec))


async def until_asked(here: World) -> None:
    async with here.within(90, "asked with a trusted certificate"):
        while True:
            with contextlib.suppress(RefusedError):
                await try_create(here.cluster, here.namespace, stages=[{"name": "a"}])
                return
            await asyncio.sleep(0.2)


async def certificate(cluster: Cluster) -> str:
    found = await cluster.find(STORED)
    return str((found or {}).get("data", {}).get("tls.crt", ""))


async def test_the_operator_is_asked_in_words_and_not_about_its_own(
    here: World, service: Balancer
) -> None:
    await here.start(*flags(service, 0))
    await until_asked(here)
    path = NEWEST.path(here.namespace)
    made = await here.cluster.ask("POST", path, festival(NEWEST, "one", stages=[{"name": "a"}]))
    assert made["spec"]["hours"] == {"opens": "10"}
    old = {"stages": [{"name": "rude"}]}
    with pytest.raises(RefusedError) as refused:
        await try_create(here.cluster, here.namespace, **old)
    assert "denied the request: A stage is called rude; give it another name." in str(refused.value)
    assert refused.value.status == 422
    slow = festival(NEWEST, "slow", stages=[{"name": "a"}])  # its function hangs
    await here.cluster.ask("POST", path, slow)
    await here.wait_until_ready("one")


@pytest.mark.parametrize("subject", [Permits()], ids=str)
async def test_kopfs_own_handlers_are_asked_on_a_standby_and_on_the_leader(
    here: World, service: Balancer
) -> None:
    await here.start(*flags(service, 0))
    await here.launch(*flags(service, 1))
    service.replicas = service.replicas[1:]
    short = here.subject.manifest("alice", "short")
    short["metadata"]["labels"] = {"kind": "short"}
    long = here.subject.manifest("alice", "long")
    long["spec"]["days"] = 301

    async def write(manifest: Raw) -> tuple[int, Raw, str]:
        url = f"{here.cluster.plane.server}{here.objects}?dryRun=All"
        async with here.cluster.session.post(url, json=manifest) as answer:
            return answer.status, await answer.json(), answer.headers.get("Warning", "")

    async def expect_answers() -> None:
        status, refused, _ = await write(here.subject.manifest("mallory", "no"))
        assert (status, refused["message"].partition("request: ")[2]) == (422, "mallory is banned.")
        status, _, warning = await write(long)
        assert (status, "That is nearly a year." in warning) == (201, True)
        status, changed, _ = await write(short)
        assert (status, changed["spec"]["days"]) == (201, 1)

    async with here.within(90, "asked with a trusted certificate"):
        while "days" not in (await write(short))[1].get("spec", {}):
            await asyncio.sleep(0.2)
    await expect_answers()
    await here.operator.stop()
    await here.create("bob")
    await here.wait_until_ready()  # by the replica that was a standby
    await expect_answers()


async def test_a_release_can_take_out_a_webhook_that_the_operator_has_written_to(
    here: World, service: Balancer
) -> None:
    """Helm 4 applies on the server: what another manager owns a part of would stay."""
    path = VALIDATING_WEBHOOK_CONFIGURATION.path(name=NAME)
    found = await here.cluster.ask("GET", path)
    await here.cluster.remove(path)
    whole = {name: found[name] for name in ("apiVersion", "kind", "webhooks")}

    async def release(webhooks: list[Raw]) -> list[str]:
        body = {**whole, "webhooks": webhooks, "metadata": {"name": NAME}}
        applied = await here.cluster.ask(
            "PATCH", f"{path}?fieldManager=helm", body, kind="application/apply-patch+yaml"
        )
        return [webhook["name"] for webhook in applied["webhooks"]]

    both = whole["webhooks"]
    await release(both)
    await here.start(*flags(service, 0))
    await until_asked(here)

    assert await release(both[:1]) == [both[0]["name"]]


async def test_three_rotations_refuse_nothing_despite_kills(here: World, service: Balancer) -> None:
    await here.start(*flags(service, 0))
    await here.launch(*flags(service, 1))
    await until_asked(here)
    refused: list[str] = []
    asked, stop = 0, asyncio.Event()

    async def write() -> None:
        nonlocal asked
        while not stop.is_set():
            try:
                await try_create(here.cluster, here.namespace, stages=[{"name": "a"}])
                asked += 1
            except RefusedError as error:
                refused.append(str(error))
            await asyncio.sleep(0.01)

    async def trust() -> None:
        """Connect as an API server does that has just read what it is to trust."""
        while not stop.is_set():
            crd = await here.cluster.ask("GET", here.subject.crd)
            bundle = crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
            try:
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", service.port, ssl=context, server_hostname=f"{NAME}.{SPACE}.svc"
                )
                writer.close()
            except OSError as error:
                refused.append(str(error))
            await asyncio.sleep(0.05)

    load = [asyncio.create_task(work()) for work in (write, write, trust)]
    seen = {await certificate(here.cluster)}
    async with here.within(120, "rotated three times"):
        while len(seen) < 4:
            before = asked
            found = await here.cluster.ask("GET", STORED)
            seen.add(found["data"]["tls.crt"])
            # Something is written before, between and after the rotations.
            while asked == before and not refused:
                await asyncio.sleep(0.1)
    stop.set()
    await asyncio.gather(*load)

    assert refused == []


@pytest.mark.long
async def test_who_is_killed_between_two_steps_is_continued_by_another(
    here: World, service: Balancer
) -> None:
    await here.start(*flags(service, 0))
    await until_asked(here)
    for key in ("next.pem", ""):  # while it waits, and just after it came
        async with here.within(60, "at that step"):
            while (key in (await here.cluster.ask("GET", STORED))["data"]) != bool(key):
                await asyncio.sleep(0.02)
        before = await certificate(here.cluster)
        here.operator.send(Signals.SIGKILL)
        async with here.within(90, "rotated by the next process"):
            while await certificate(here.cluster) == before:
                await asyncio.sleep(0.1)
        await until_asked(here)


async def test_a_deleted_or_spoilt_secret_comes_back(here: World, service: Balancer) -> None:
    await here.start(*flags(service, 0))
    await until_asked(here)
    await here.cluster.remove(STORED)
    async with here.within(60, "back"):
        while not await certificate(here.cluster):
            await asyncio.sleep(0.1)
    await try_create(here.cluster, here.namespace, stages=[{"name": "a"}])
    garbage = base64.b64encode(b"garbage").decode()
    await here.cluster.patch(STORED, {"data": {"tls.crt": garbage, "ca.crt": garbage}})
    async with here.within(60, "mended"):
        while await certificate(here.cluster) == garbage:
            await asyncio.sleep(0.1)
    await try_create(here.cluster, here.namespace, stages=[{"name": "a"}])
    assert "has no usable tls.crt and tls.key; they are made again" in here.operator.log.read_text()
