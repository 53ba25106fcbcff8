"""Traces: a span for each reconcile, each call of an author's, and each request.

`manager` calls `set_up`, which imports `otel`, and with it OpenTelemetry (the extra `otel`), only
if the environment asks for traces, or the program has set a tracer provider. Otherwise nothing here
does anything.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kopf_runtime.cluster.http import Answer

if TYPE_CHECKING:
    from kopf_runtime.cluster.otel import Tracer

logger = logging.getLogger(__name__)

_tracer: "Tracer | None" = None

_Send = Callable[..., Awaitable[Answer]]


def set_up(name: str, version: str) -> None:
    """Trace from now on if traces are asked for; if they cannot be sent, say why."""
    global _tracer
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    default = "otlp" if any(map(os.environ.get, endpoints)) else "none"
    exporters = os.environ.get("OTEL_TRACES_EXPORTER") or default
    if exporters == "none" and "opentelemetry.trace" not in sys.modules:
        return
    try:
        from kopf_runtime.cluster import otel

        _tracer = otel.tracer(exporters, name, version) or _tracer
    except Exception as error:  # the objects are to be reconciled all the same
        logger.error(
            "The environment asks for traces (OTEL_TRACES_EXPORTER=%s), but none are sent: %s; "
            'install "kopf-runtime[otel]", or correct the variables',
            exporters,
            error,
        )


def span(name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Record a span for the block; it fails if the block does."""
    return nullcontext() if _tracer is None else _tracer.span(name, attributes)


def note(name: str, value: Any) -> None:
    """Add an attribute to the current span."""
    if _tracer is not None:
        _tracer.note(name, value)


def failed(type_: str, message: str = "") -> None:
    """Say that what the current span stands for has failed."""
    if _tracer is not None:
        _tracer.failed(type_, message)


def ids() -> dict[str, str]:
    """Return what a log line says of the current span: its ids, or nothing without a span."""
    return {} if _tracer is None else _tracer.ids()


def traced(send: _Send, server: str) -> _Send:
    """Return a function that sends requests as this one does, each with a span; off, itself."""
    return send if _tracer is None else _tracer.traced(send, server)
