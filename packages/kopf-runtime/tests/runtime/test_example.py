"""The operator of twenty lines runs, and a kopf handler beside it."""

import ast
import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from kopf_kit.rig.control_plane import kubeconfig
from kopf_kit.testing.process import free_port
from kopf_runtime.declaring.kinds import Kind
from kopf_runtime.process import kopf_registry
from kopf_runtime.process.beside_kopf import BesideKopf
from runtime.support.api_server import LEASE, ApiServer, listening
from runtime.support.waiting import until
from runtime.widgets import ready, text

EXAMPLE = Path(__file__).with_name("greetings.py")
#: What a process of its own imports from, as the tests do.
PYTHON_PATH = os.pathsep.join(filter(None, sys.path))
GREETING = Kind("example.dev", "v1", "greetings", "Greeting")
KEY, CHILD = ("ns", "one"), ("ns", "greeting-one")

PYTHON = (sys.executable,)
KOPF = (sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces")
KINDS = (GREETING,)


@asynccontextmanager
async def process(
    server: ApiServer, folder: Path, *command: str, ends_with: int = 0, **more: str
) -> AsyncIterator[Path]:
    """Run a command as a developer does; return the file that it logs to.

    It must live until it is told to end; with another code, it must end by itself.
    """
    config, log = folder / "kubeconfig", folder / "log"
    config.write_text(kubeconfig(server.url, "t"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "KUBECONFIG": str(config),
        "PYTHONPATH": PYTHON_PATH,
        "GREETING_OPERATOR_METRICS_BIND_ADDRESS": "0",
        "GREETING_OPERATOR_HEALTH_PROBE_BIND_ADDRESS": "0",
        **more,
    }
    with log.open("wb") as file:
        operator = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd=folder, stdout=file, stderr=file
        )
    try:
        yield log
        if not ends_with:
            assert operator.returncode is None, log.read_text()
            operator.terminate()
        assert await asyncio.wait_for(operator.wait(), 30) == ends_with, log.read_text()
    finally:
        if operator.returncode is None:
            operator.kill()
            await operator.wait()


def put(server: ApiServer, whom: str, name: str = "one") -> None:
    server.put(GREETING, {"metadata": {"namespace": "ns", "name": name}, "spec": {"name": whom}})


@pytest.mark.parametrize("command", [PYTHON, KOPF], ids=["python", "kopf run"])
@pytest.mark.parametrize(
    ("code", "wrong", "why"),
    [
        (
            "@controller.desired",
            "",
            "no function says which objects of ConfigMap a Greeting "
            "should have; register one with @controller.desired.",
        ),
        (
            "controller = ",
            "controller = manager.controller_for(Greeting)\ncontroller = ",
            "Greeting has more than one controller; declare all about a kind with one.",
        ),
    ],
    ids=["it owns and plans nothing", "two controllers of one kind"],
)
async def test_an_operator_that_cannot_be_meant_says_so_in_a_sentence_and_ends(
    server: ApiServer, tmp_path: Path, command: tuple[str, ...], code: str, wrong: str, why: str
) -> None:
    careless = tmp_path / "careless.py"
    careless.write_text(EXAMPLE.read_text().replace(code, wrong, 1))
    async with process(server, tmp_path, *command, str(careless), ends_with=1) as log:
        pass
    *_, last = log.read_text().splitlines()
    assert last == f"greeting-operator: {why}"
    assert "Traceback" not in log.read_text()


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[ResourceSpans]]]:
    """Run what receives traces; yield its address, and what it has received."""
    received: list[ResourceSpans] = []

    async def receive(request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        received.extend(sent.resource_spans)
        return web.Response()

    async with listening(receive) as url:
        yield url, received


@pytest.mark.parametrize("command", [PYTHON, KOPF], ids=["python", "kopf run"])
async def test_its_traces_reach_a_collector_to_the_last_one(
    server: ApiServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    parents: list[str] = []

    async def look(request: web.Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/configmaps/greeting-one"):
            parents.append(request.headers["traceparent"])

    server.answers.append(look)
    put(server, "world")
    async with collector() as (url, received):
        more: Any = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_RESOURCE_ATTRIBUTES": "a=b"}
        async with process(server, tmp_path, *command, str(EXAMPLE), **more):
            await until(lambda: ready(server.get(GREETING, KEY)).get("status"), seconds=60)

    about = {
        attribute.key: attribute.value.string_value for attribute in received[0].resource.attributes
    }
    assert (about["service.name"], about["a"]) == ("greeting-operator", "b")
    spans = [span for sent in received for scope in sent.scope_spans for span in scope.spans]
    reconciles = {span.span_id for span in spans if span.name == "reconcile greetings"}
    (apply,) = (span for span in spans if re.match("PATCH .*/configmaps/", span.name))
    assert apply.parent_span_id in reconciles
    assert len(parents) == 1
    assert parents[0].startswith(f"00-{apply.trace_id.hex()}-{apply.span_id.hex()}-")


async def test_traces_that_cannot_be_sent_are_missed_in_a_sentence(
    server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "opentelemetry.py").write_text("")  # as if it were not installed
    put(server, "world")
    path = os.pathsep.join((str(tmp_path), PYTHON_PATH))
    more: Any = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": path}
    async with process(server, tmp_path, *PYTHON, str(EXAMPLE), **more) as log:
        await until(lambda: text(server, CHILD) == "Hello, world!", seconds=60)

    (said,) = [line for line in log.read_text().splitlines() if "kopf-runtime[otel]" in line]
    assert "none are sent" in said


async def test_only_what_an_operator_uses_is_imported(server: ApiServer, tmp_path: Path) -> None:
    put(server, "world")
    command = *PYTHON, "-X", "importtime", str(EXAMPLE)
    served: Any = {"GREETING_OPERATOR_METRICS_BIND_ADDRESS": f"127.0.0.1:{free_port()}"}
    async with process(server, tmp_path, *command, **served) as log:
        await until(lambda: text(server, CHILD) == "Hello, world!", seconds=60)

    assert "WARNING" not in log.read_text()
    imported = {line.rpartition("|")[2].strip() for line in log.read_text().splitlines()}
    assert {"kopf.on", "kopf_runtime.cluster.tracing"} <= imported
    assert not imported & {
        "aiohttp.client",
        "cryptography",
        "difflib",
        "kopf_runtime.cluster.otel",
        "kopf_runtime.cluster.sessions",
        "kopf_runtime.converting.versions",
        "kopf_runtime.endpoints.certificates",
        "kopf_runtime.endpoints.reviews",
        "kopf_runtime.process.kopf_admission",
        "kopf_runtime.process.kopf_private",
        "kopf_runtime.working.admission",
        "kopf_runtime.working.migration",
        "opentelemetry",
    }


BESIDE = str(Path(__file__).with_name("beside.py"))
ELECT = ("--leader-elect", "--lease-namespace=ns")


def handled_by(server: ApiServer, name: str = "one") -> set[str]:
    """Return the replicas whose kopf handler was called for an object."""
    meta = (server.get(GREETING, ("ns", name)) or {"metadata": {}})["metadata"]
    return {mark for mark in meta.get("annotations", {}) if mark.startswith("beside-")}


async def test_d5_a_kopf_handler_beside_the_runtime_is_called_on_the_leader_alone(
    server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    put(server, "world")
    async with AsyncExitStack() as standby:
        async with process(server, tmp_path / "a", *PYTHON, BESIDE, *ELECT, POD_NAME="a"):
            await until(lambda: handled_by(server) == {"beside-a"}, seconds=60)
            log = await standby.enter_async_context(
                process(server, tmp_path / "b", *PYTHON, BESIDE, *ELECT, POD_NAME="b")
            )
            await until(lambda: "Ready; there are" in log.read_text(), seconds=60)
            put(server, "world", "two")
            await until(lambda: handled_by(server, "two"), seconds=60)

        put(server, "world", "three")
        await until(lambda: handled_by(server, "three") == {"beside-b"}, seconds=60)
        assert [handled_by(server, name) for name in ("one", "two")] == [{"beside-a"}] * 2


async def test_d5_a_replica_with_kopf_handlers_ends_when_it_leads_no_more(
    server: ApiServer, tmp_path: Path
) -> None:
    def give_away(lease: Any) -> None:
        lease["spec"]["holderIdentity"] = "another"

    put(server, "world")
    command = (*PYTHON, BESIDE, *ELECT)
    async with process(server, tmp_path, *command, ends_with=1, POD_NAME="a") as log:
        await until(lambda: handled_by(server), seconds=60)
        (lease,) = server.all(LEASE)
        server.edit(LEASE, ("ns", lease["metadata"]["name"]), give_away)

    assert "This replica ends: kopf's handlers may run on the leader alone" in log.read_text()
    assert "Traceback" not in log.read_text()


async def test_c15_the_lease_is_released_once_kopf_s_daemons_have_ended(
    server: ApiServer, tmp_path: Path
) -> None:
    noted, released = tmp_path / "daemon", list[str]()

    async def look(request: web.Request) -> None:
        renews = request.method == "PUT" and "/leases/" in request.path
        if renews and not (await request.json())["spec"]["holderIdentity"]:
            released.append(noted.read_text())

    def held(greeting: Any) -> None:
        greeting["metadata"]["finalizers"] = ["kopf.zalando.org/KopfFinalizerMarker"]

    server.answers.append(look)
    put(server, "world")
    server.edit(GREETING, KEY, held)  # by which kopf runs a daemon; it adds it itself by JSON Patch
    more: Any = {"POD_NAME": "a", "DAEMON": str(noted)}
    async with process(server, tmp_path, *PYTHON, BESIDE, *ELECT, **more):
        await until(noted.exists, seconds=60)

    assert released == ["ended"]


@pytest.mark.parametrize("on", [kopf.on.event, kopf.on.create, kopf.timer, kopf.daemon, kopf.index])
def test_d5_each_kind_of_kopf_handler_is_seen(on: Any) -> None:
    before = kopf.get_default_registry()
    try:
        kopf.set_default_registry(kopf.OperatorRegistry())
        kopf.on.startup()(lambda **_: None)  # as a manager does
        assert not BesideKopf(list).has_handlers()
        more = {"interval": 1} if on is kopf.timer else {}
        on("example.dev", "v1", "greetings", **more)(lambda **_: None)
        assert BesideKopf(list).has_handlers()
    finally:
        kopf.set_default_registry(before)


SIGNALLED = """
import asyncio, os, runpy, signal, threading, time
def ask():
    while time.sleep(1) is None:
        if signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL:  # it has started
            os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread(target=ask, daemon=True).start()
runpy.run_path({path!r}, run_name="__main__")
"""


async def test_on_sigusr1_it_says_what_each_task_does(server: ApiServer, tmp_path: Path) -> None:
    put(server, "world")
    (script := tmp_path / "signalled.py").write_text(SIGNALLED.format(path=str(EXAMPLE)))
    async with process(server, tmp_path, *PYTHON, str(script)) as log:
        await until(lambda: "greetings.example.dev: 0 wait, 0 are" in log.read_text(), seconds=60)
        await until(lambda: "work: TaskGroup.__aexit__ (" in log.read_text(), seconds=60)


# --- what is used of kopf: its public names, and a few private ones in one module -----------------


SOURCES = Path(kopf_registry.__file__).parents[1]


def run(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which looks for modules in these folders first."""
    environment = {"PYTHONPATH": os.pathsep.join((*map(str, folders), PYTHON_PATH))}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


LATER = """
import sys, {first}
from kopf._cogs.clients import auth
from kopf._kits import webhooks
print("aiohttp" in sys.modules)
used = auth.aiohttp.ClientSession, webhooks.aiohttp.web.Request
import aiohttp.web
assert used == (aiohttp.ClientSession, aiohttp.web.Request)
"""


def test_a_kopf_that_uses_aiohttp_as_it_is_imported_gets_it_then(tmp_path: Path) -> None:
    shutil.copytree(Path(kopf.__file__).parent, tmp_path / "kopf")
    with (tmp_path / "kopf" / "_kits" / "webhooks.py").open("a") as module:
        module.write("\n\naiohttp.ClientTimeout(total=1)\n")
    done = run("import kopf_runtime, kopf; print(kopf.__file__)", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/kopf/__init__.py\n"), done.stderr


#: Each private part of kopf that the runtime uses, by the module that has it.
PRIVATE = {
    "kopf._cogs.clients": "scanning watching",
    "kopf._cogs.clients.errors": "APIError APIForbiddenError",
    "kopf._cogs.clients.scanning": "_read_version scan_resources",
    "kopf._cogs.clients.watching": "WatchingError continuous_watch",
    "kopf._cogs.structs.references": "Insights Resource",
    "kopf._core.engines.admission": "MemoGetter build_webhooks serve_admission_request",
    "kopf._core.reactor": "observation",
    "kopf._core.reactor.observation": "revise_resources",
}


def test_c1_one_module_alone_uses_private_names_of_kopf() -> None:
    code = {file: file.read_text() for file in SOURCES.rglob("*.py")}
    private = re.compile(r"\bkopf\._|\bfrom kopf import .*\b_")
    (using,) = (file for file, text in code.items() if private.search(text))
    assert using.stem == "kopf_private"

    imported = {
        alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(code[using]))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kopf._")
        for alias in node.names
    }
    taken = {
        f"{imported[owner]}.{node.attr}"
        for file, text in code.items()
        if file == using or using.stem in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        if (owner := ast.unparse(node.value).removeprefix("private.")) in imported
    }
    known = {f"{module}.{name}" for module, names in PRIVATE.items() for name in names.split()}
    assert {*imported.values()} | taken == known


MOVED = """
import sys
import kopf
import kopf_runtime as kr
manager = kr.Manager("moved", kr.Settings)
{handler}
for name in [name for name in sys.modules if name.startswith("kopf._")]:
    sys.modules[name] = None
print(manager.beside.has_handlers())
manager.beside.forgive()
"""


#: What is imported as it is used, and the use.
LATE = {
    "iso8601": "kopf._core.engines.peering.iso8601.parse_date",
    "yaml": "kopf._core.intents.piggybacking.yaml.safe_load",
}
LOOK = (
    "import sys, kopf_runtime, kopf; print({0!r} in sys.modules); {1}; print({0!r} in sys.modules)"
)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        *(
            (LATER.format(first=first), True)
            for first in ("kopf, kopf_runtime", "aiohttp, kopf_runtime")
        ),
        (LATER.format(first="kopf_runtime"), False),
        *((LOOK.format(*late), "False\nTrue") for late in LATE.items()),
        # what kopf gets late, others import as usual
        ("import kopf_runtime; from yaml import *; print(safe_load('1'))", 1),
        # after the import, Python looks for garbage as before
        ("import gc; gc.enable(); import kopf_runtime; print(gc.isenabled())", True),
        ("import gc; gc.disable(); import kopf_runtime; print(gc.isenabled())", False),
        # an operator without handlers needs no private name of kopf
        (MOVED.format(handler=""), False),
    ],
)
def test_what_few_operators_use_is_imported_as_they_use_it(code: str, printed: object) -> None:
    done = run(code)
    assert (done.returncode, done.stdout) == (0, f"{printed}\n"), done.stderr


def test_an_operator_with_handlers_names_what_kopf_has_moved() -> None:
    done = run(MOVED.format(handler="kopf.on.event('pods')(lambda **_: None)"))
    assert done.stdout == "True\n"
    assert "has moved what its handlers need here" in done.stderr
    assert "install one that kopf-runtime supports" in done.stderr


def test_if_no_handler_is_found_there_may_be_any() -> None:
    """Then kopf has moved them, and an operator that lost its Lease must end."""
    registry = kopf.OperatorRegistry()
    assert kopf_registry.acts(registry)
    kopf.on.startup(registry=registry)(lambda **_: None)
    assert not kopf_registry.acts(registry)
    kopf.on.validate("pods", registry=registry)(lambda **_: None)
    assert not kopf_registry.acts(registry)
    kopf.index("pods", registry=registry)(lambda **_: None)
    assert kopf_registry.acts(registry)
