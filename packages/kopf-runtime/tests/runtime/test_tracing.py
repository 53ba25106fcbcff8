"""Spans of the real SDK, kept in memory; test_example sends those of a process to a collector."""

import asyncio
import contextvars
import json
import logging
import subprocess
import sys
from typing import Any

import kopf
import pytest
from aiohttp import web
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import kopf_runtime as kr
from kopf_runtime.cluster import otel, tracing
from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.credentials import Credentials
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.reporting import logs
from runtime import widgets
from runtime.support.api_server import ApiServer, RefusedError
from runtime.support.running import operating
from runtime.support.waiting import until
from runtime.widgets import WIDGET, Widget, reconciled, widget, working_on

APPLY = "PATCH /api/v1/namespaces/{namespace}/configmaps/{name}"
FAILED, WELL = trace.StatusCode.ERROR, trace.StatusCode.UNSET


class Spans:
    """What has been traced."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def reconciles(self, reason: str) -> list[ReadableSpan]:
        """Return those of the reconciles that ended with this reason."""
        ended = [
            span for span in self.of("reconcile widgets") if about(span, "reconcile.result")[0]
        ]
        return [span for span in ended if about(span, "reconcile.reason") == [reason]]

    def parents(self, name: str) -> set[str]:
        """Return the names of the spans that the spans of a name belong to."""
        named = {span.context.span_id: span.name for span in self._exporter.get_finished_spans()}
        return {named[span.parent.span_id] if span.parent else "" for span in self.of(name)}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Trace as `set_up` has it done, but without a provider of the whole process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", otel.Tracer(provider.get_tracer("tests")))
    return Spans(exporter)


def about(span: ReadableSpan, *names: str) -> list[Any]:
    attributes = span.attributes or {}
    return [attributes.get(name) for name in names]


async def test_requests_of_a_reconcile_are_its_children(server: ApiServer, spans: Spans) -> None:
    async with working_on(server, widget(), widgets.controller()):
        await until(lambda: spans.reconciles("Reconciled"))

    last = spans.reconciles("Reconciled")[-1]
    names = "controller", "namespace", "name", "result", "reason"
    wanted = ["widgets", "ns", "one", "success", "Reconciled"]
    assert about(last, *(f"reconcile.{name}" for name in names)) == wanted
    assert spans.parents("reconcile widgets") == {""}
    assert spans.parents(APPLY) == {"reconcile widgets"}
    assert spans.parents("GET /apis/example.dev/v1/widgets") == {""}  # of no object


async def test_a_refused_request_fails_its_reconcile(server: ApiServer, spans: Spans) -> None:
    server.put(WIDGET, widget())
    server.refuse("PATCH", "configmaps", RefusedError(403, "Forbidden", "no"))
    async with operating(server, widgets.controller()):
        await until(lambda: spans.reconciles("Reconciled"))

    refused = next(span for span in spans.of(APPLY) if span.status.status_code is FAILED)
    first, last = spans.reconciles("Forbidden")[0], spans.reconciles("Reconciled")[0]
    assert refused.kind is trace.SpanKind.CLIENT
    assert about(refused, "http.response.status_code", "error.type") == [403, "403"]
    assert refused.parent is not None
    assert refused.parent.span_id == first.context.span_id
    assert about(first, "reconcile.result") == ["requeue"]
    assert "403 Forbidden: no" in (first.status.description or "")
    assert [span.status.status_code for span in (first, last)] == [FAILED, WELL]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, WELL, "Reconciled"),
        (kr.Wait("Later", "It waits."), WELL, "Later"),
        (OSError("no"), FAILED, "SyncFailed"),
    ],
    ids=["it returns", "it waits", "it fails"],
)
async def test_a_call_of_the_authors_is_a_span(
    server: ApiServer, spans: Spans, error: Exception | None, status: trace.StatusCode, reason: str
) -> None:
    one = widgets.controller()

    async def book(_: Widget, __: kr.Context[Any]) -> None:
        with tracing.span("of the author", {}):
            await asyncio.sleep(0)
        if error is not None:
            raise error

    one.sync()(book)
    async with working_on(server, widget(), one):
        await until(lambda: spans.reconciles(reason))

    (call, *_) = spans.of("sync")
    assert about(call, "code.function.name") == ["book"]
    assert call.status.status_code is status
    assert spans.parents("sync") == {"reconcile widgets"}
    assert spans.parents("of the author") == {"sync"}  # though it runs in a task of its own


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def test_a_request_without_an_answer_fails(server: ApiServer, spans: Spans) -> None:
    server.answers.append(hangs)
    client = Client("tester", "1", 0.1, Metrics("tester"))
    url = server.url.replace("//", "//joe:secret@")  # which is no business of who reads the traces
    client.open(Credentials(kopf.ConnectionInfo(server=url)))
    try:
        with pytest.raises(kr.ApiError):
            await client.request("GET", "/api/v1/nodes/one?x")
    finally:
        await client.close()

    (asked,) = spans.of("GET /api/v1/nodes/{name}")
    assert asked.status.status_code is FAILED
    assert about(asked, "error.type", "url.full") == [
        "CancelledError",  # given up
        f"{server.url}/api/v1/nodes/one?x",
    ]


class Broken(SpanProcessor):
    """Raises as spans begin or end."""

    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, *_: Any, **__: Any) -> None:
        if self._when == "begin":
            raise RuntimeError("no room")

    def on_end(self, *_: Any) -> None:
        if self._when == "end":
            raise RuntimeError("no room")


@pytest.mark.parametrize("when", ["begin", "end"])
async def test_a_tracer_that_fails_is_told_once_and_the_work_goes_on(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken(when))
    monkeypatch.setattr(tracing, "_tracer", otel.Tracer(provider.get_tracer("tests")))
    async with reconciled(server, widget(), widgets.controller()):
        pass

    assert caplog.text.count("cannot be traced") == 1


def test_a_log_line_has_the_ids_of_its_span(spans: Spans) -> None:
    with tracing.span("one", {}):
        text, found = logs.Text().format(line("done")), as_json(line("done"))

    (one,) = spans.of("one")
    trace_id, span_id = f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}"
    assert text.endswith(f"done trace_id={trace_id} span_id={span_id}")
    assert (found["trace_id"], found["span_id"]) == (trace_id, span_id)
    assert "trace_id" not in as_json(line("done"))


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_tracer", None)
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("off")
def test_a_provider_of_the_program_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.set_up("tester", "1")
    with tracing.span("without it", {}):
        pass
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    tracing.set_up("tester", "1")

    with tracing.span("with it", {}):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["with it"]


@pytest.mark.usefixtures("off")
@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"OTEL_TRACES_EXPORTER": "console, pigeon"}, "no exporter pigeon is installed"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "no exporter otlp_proto_grpc is installed",
        ),
    ],
)
def test_what_cannot_be_set_up_is_told_and_nothing_is_traced(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    why: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    tracing.set_up("tester", "1")

    assert f"none are sent: {why}" in caplog.text
    assert tracing._tracer is None


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/version", "/version"),
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/namespaces", "/api/v1/namespaces"),
        ("/api/v1/namespaces/a", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/{namespace}/pods/{name}"),
        ("/apis/a.b/v1/tenants/c/status", "/apis/a.b/v1/tenants/{name}/status"),
        ("/k8s/c-1/apis/a.b/v1/namespaces/c/ds", "/k8s/c-1/apis/a.b/v1/namespaces/{namespace}/ds"),
    ],
)
def test_the_template_of_a_path_names_no_object(path: str, template: str) -> None:
    assert otel._PATH.sub(otel._template, path) == template


# --- log lines ----------------------------------------------------------------------------------


NASTY = "\x1b[2J\r\nERROR forged\x00\u202e\x9b"


def line(message: str, **more: object) -> logging.LogRecord:
    record = logging.LogRecord("a.logger", logging.INFO, "", 0, message, (), None)
    record.__dict__.update(more)
    return record


def as_json(record: logging.LogRecord) -> dict[str, str]:
    found: dict[str, str] = json.loads(logs.Json().format(record))
    return found


def test_each_line_names_what_it_is_about() -> None:
    def tell() -> tuple[dict[str, Any], str]:
        logs.about(("ns", "hello"))
        return as_json(line("done")), logs.Text().format(line("done"))

    found, text = contextvars.copy_context().run(tell)

    assert (found["namespace"], found["name"], found["message"]) == ("ns", "hello", "done")
    assert text.endswith("INFO    ns/hello: done")
    assert "namespace" not in as_json(line("done"))


def test_a_line_of_kopf_names_its_object() -> None:
    found = as_json(line("seen", k8s_ref={"namespace": "ns", "name": "hello"}))

    assert (found["namespace"], found["name"]) == ("ns", "hello")


@pytest.mark.parametrize("form", [logs.Text(), logs.Json()])
def test_a_text_can_neither_forge_a_line_nor_steer_a_terminal(form: logging.Formatter) -> None:
    made = form.format(line(NASTY))

    assert made.isprintable()
    assert len(made.splitlines()) == 1
    assert "\\x1b[2J" in made.replace("\\\\", "\\")


def test_ordinary_texts_stay_readable() -> None:
    assert logs.escape("안녕하세요, 🌍!") == "안녕하세요, 🌍!"


def test_an_endless_line_is_cut() -> None:
    assert len(logs.escape("x" * 100_000)) < logs.MAX_CHARACTERS + 50


def test_a_traceback_is_escaped_too() -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        record = line("failed", exc_info=sys.exc_info())

    assert logs.Text().format(record).replace("\n", "").isprintable()
    assert "Traceback" in as_json(record)["exception"]
    assert as_json(record)["exception"].replace("\n", "").isprintable()


def test_a_record_of_an_authors_says_where_it_was_made() -> None:
    """To the handlers that they add, such as those of Sentry and OpenTelemetry."""
    program = """
import logging
from kopf_runtime.reporting.logs import configure
configure("info", "json")
logging.getLogger().handlers[0].setFormatter(logging.Formatter("line %(lineno)d"))
logging.getLogger("mine").info("Hello.", stack_info=True)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stderr.startswith(b"line 6\nStack (most recent call last):")
