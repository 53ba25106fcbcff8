"""Sends traces by OpenTelemetry; `tracing` imports it only if the environment asks for them.

The exporter is OTLP over HTTP, or what `OTEL_TRACES_EXPORTER` names (`console`). A process that
ends releases its Lease first, and may then try for 30 seconds to send the last spans.
"""

import contextlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import propagate, trace

from kopf_runtime.cluster import proxies
from kopf_runtime.cluster.failures import describe_error
from kopf_runtime.cluster.http import Answer
from kopf_runtime.declaring.errors import Wait

logger = logging.getLogger(__name__)

#: A path of the API server; its template leaves out the namespace and the name.
_PATH = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(/namespaces/[^/]+(?=/))?(/[^/]+)(/[^/]+)?")

Send = Callable[..., Awaitable[Answer]]


class Tracer:
    """Records spans."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._logged = False  # whether an error of the tracer has been logged

    @contextlib.contextmanager
    def span(self, name: str, attributes: Mapping[str, Any], **more: Any) -> Iterator[None]:
        """Record a span for the block; it fails if the block does."""
        more |= {"record_exception": False, "set_status_on_exception": False}
        opened = contextlib.ExitStack()
        with self._going_on():
            opened.enter_context(
                self._tracer.start_as_current_span(name, attributes=attributes, **more)
            )
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Wait):  # which is no failure
                self.failed(type(error).__name__, describe_error(error))
            raise
        finally:
            with self._going_on():
                opened.close()

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """Log the first error of a tracer, such as of a sampler or a span processor; raise none."""
        try:
            yield
        except Exception:
            if not self._logged:
                logger.exception(
                    "A span cannot be traced; the work goes on, and no more is said of it"
                )
            self._logged = True

    def note(self, name: str, value: Any) -> None:
        """Add an attribute to the current span."""
        trace.get_current_span().set_attribute(name, value)

    def failed(self, type_: str, message: str) -> None:
        """Say that what the current span stands for has failed."""
        self.note("error.type", type_)
        trace.get_current_span().set_status(trace.StatusCode.ERROR, message)

    def ids(self) -> dict[str, str]:
        """Return what a log line says of the current span: its ids, or nothing without a span."""
        if not (current := trace.get_current_span().get_span_context()).is_valid:
            return {}
        return {
            "trace_id": trace.format_trace_id(current.trace_id),
            "span_id": trace.format_span_id(current.span_id),
        }

    def traced(self, send: Send, server: str) -> Send:
        """Return a function that sends requests as this one does, each with a span.

        The attributes are those of https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
        """
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
            with self.span(f"{method} {template}", attributes, kind=trace.SpanKind.CLIENT):
                sent = dict(headers)
                with self._going_on():
                    propagate.inject(sent)
                answer = await send(method, target, sent, *more, **options)
                self.note("http.response.status_code", answer.status)
                if answer.status >= 400:
                    self.failed(str(answer.status), "")
                return answer

        return request


def tracer(exporters: str, name: str, version: str) -> Tracer | None:
    """Return a tracer; None if nothing asks for traces. Raise if they cannot be sent."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # none is set
        if exporters == "none":
            return None
        _provide(exporters, name, version)
    return Tracer(trace.get_tracer("kopf_runtime"))


def _provide(exporters: str, name: str, version: str) -> None:
    """Set a tracer provider with these exporters; the SDK reads the rest of the environment."""
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


def _template(path: re.Match[str]) -> str:
    namespace, name = path[2] and "/namespaces/{namespace}", path[4] and "/{name}"
    return f"{path[1]}{namespace or ''}{path[3]}{name or ''}"
