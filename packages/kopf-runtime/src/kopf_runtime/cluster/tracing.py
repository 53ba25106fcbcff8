"""Traces by OpenTelemetry: a span for each reconcile, each call of an author's, and each request.

`manager` calls `set_up`, which imports OpenTelemetry (the extra `otel`) only if the environment
asks for traces, or the program has set a tracer provider. Otherwise nothing here does anything. The
exporter is OTLP over HTTP, or what `OTEL_TRACES_EXPORTER` names (`console`, `none`). A process that
ends releases its Lease first, and may then try for 30 seconds to send the last spans.
"""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from kopf_runtime.cluster import proxies
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.http import Answer
from kopf_runtime.declaring.errors import Wait

logger = logging.getLogger(__name__)

#: The module `opentelemetry.trace` and its tracer while we trace, else None.
_api: Any = None
_tracer: Any = None
#: Whether an error of the tracer has been logged.
_logged = False
#: A path of the API server; its template leaves out the namespace and the name.
_PATH = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(/namespaces/[^/]+(?=/))?(/[^/]+)(/[^/]+)?")

_Send = Callable[..., Awaitable[Answer]]


def set_up(name: str, version: str) -> None:
    """Trace from now on if traces are asked for; if they cannot be sent, say why."""
    global _api, _tracer
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    default = "otlp" if any(map(os.environ.get, endpoints)) else "none"
    exporters = os.environ.get("OTEL_TRACES_EXPORTER") or default
    if exporters == "none" and "opentelemetry.trace" not in sys.modules:
        return
    try:
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # none is set
            if exporters == "none":
                return
            _provide(exporters, name, version)
    except Exception as error:  # the objects are to be reconciled all the same
        logger.error(
            "The environment asks for traces (OTEL_TRACES_EXPORTER=%s), but none are sent: %s; "
            'install "kopf-runtime[otel]", or correct the variables',
            exporters,
            error,
        )
        return
    _api, _tracer = trace, trace.get_tracer("kopf_runtime")


def _provide(exporters: str, name: str, version: str) -> None:
    """Set a tracer provider with these exporters; the SDK reads the rest of the environment."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    default = Resource.create({"service.name": name, "service.version": version})
    provider = TracerProvider(resource=default.merge(OTELResourceDetector().detect()))
    protocols = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
    otlp = "otlp_proto_grpc" if "grpc" in map(os.environ.get, protocols) else "otlp_proto_http"
    for exporter in exporters.replace(" ", "").split(","):
        exporter = otlp if exporter == "otlp" else exporter
        entry_points = metadata.entry_points(group="opentelemetry_traces_exporter", name=exporter)
        if not entry_points:
            raise ImportError(f"no exporter {exporter} is installed")
        provider.add_span_processor(BatchSpanProcessor(entry_points[exporter].load()()))
    trace.set_tracer_provider(provider)  # at the end of the process it sends what is left


@contextlib.contextmanager
def span(name: str, attributes: Mapping[str, Any], **more: Any) -> Iterator[None]:
    """Record a span for the block; it fails if the block does."""
    if _api is None:
        yield
        return
    more |= {"record_exception": False, "set_status_on_exception": False}
    opened = contextlib.ExitStack()
    with _going_on():
        opened.enter_context(_tracer.start_as_current_span(name, attributes=attributes, **more))
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Wait):  # which is no failure
            failed(type(error).__name__, describe_error(error))
        raise
    finally:
        with _going_on():
            opened.close()


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Log the first error of a tracer, such as of a sampler or a span processor; raise none."""
    global _logged
    try:
        yield
    except Exception:
        if not _logged:
            logger.exception("A span cannot be traced; the work goes on, and no more is said of it")
        _logged = True


def note(name: str, value: Any) -> None:
    """Add an attribute to the current span."""
    if _api is not None:
        _api.get_current_span().set_attribute(name, value)


def failed(type_: str, message: str = "") -> None:
    """Say that what the current span stands for has failed."""
    if _api is not None:
        note("error.type", type_)
        _api.get_current_span().set_status(_api.StatusCode.ERROR, message)


def ids() -> dict[str, str]:
    """Return what a log line says of the current span: its ids, or nothing without a span."""
    if _api is None or not (current := _api.get_current_span().get_span_context()).is_valid:
        return {}
    return {
        "trace_id": _api.format_trace_id(current.trace_id),
        "span_id": _api.format_span_id(current.span_id),
    }


def traced(send: _Send, server: str) -> _Send:
    """Return a function that sends requests as this one does, each with a span; off, itself.

    The attributes are those of https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
    """
    if _api is None:
        return send
    from opentelemetry import propagate

    url = urlsplit(server)
    host, port = proxies.address(url)
    shown = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()

    async def request(
        method: str, target: str, headers: Mapping[str, str], *more: Any, **options: Any
    ) -> Answer:
        template = _PATH.sub(_template, target.partition("?")[0])
        attributes = {
            "http.request.method": method,
            "url.template": template,
            "url.full": shown + target,
            "server.address": host,
            "server.port": port,
        }
        with span(f"{method} {template}", attributes, kind=_api.SpanKind.CLIENT):
            sent = dict(headers)
            with _going_on():
                propagate.inject(sent)
            answer = await send(method, target, sent, *more, **options)
            note("http.response.status_code", answer.status)
            if answer.status >= 400:
                failed(str(answer.status))
            return answer

    return request


def _template(path: re.Match[str]) -> str:
    namespace, name = path[2] and "/namespaces/{namespace}", path[4] and "/{name}"
    return f"{path[1]}{namespace or ''}{path[3]}{name or ''}"
