"""Log lines as text or JSON, each with the object that it is about, and the ids of its trace.

`manager` sets up the logging, and `queue` calls `about` for each object. The API server's errors
may quote what users wrote, so control characters are escaped and long lines are cut: no text can
forge a log line or control a terminal. kopf's own text has no time zone, and its JSON has other
names for the level, the time and the object.
"""

import asyncio
import functools
import json
import logging
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

from kopf_runtime.cluster import tracing
from kopf_runtime.declaring.kinds import Key

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 2000  # characters of a line's message
#: Seconds between the first two lines about why nothing is served, and between any two at most.
UNSERVED, RARELY = 60.0, 600.0

_about: ContextVar[Key | None] = ContextVar("about", default=None)


def about(key: Key) -> None:
    """Add this object to every line that the task logs from now on."""
    _about.set(key)


def escape(text: str) -> str:
    """Escape characters that are not printable, and cut a text that is too long."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}… ({len(text) - MAX_CHARACTERS} more characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _object(record: logging.LogRecord) -> Key | None:
    """Return the object that a line is about; kopf's own lines carry an object reference."""
    reference = getattr(record, "k8s_ref", None)
    if reference and reference.get("name"):
        return reference.get("namespace") or "", reference["name"]
    return _about.get()


def _time(record: logging.LogRecord) -> str:
    second, part = divmod(int(record.created * 1000), 1000)
    return f"{_second(second)}.{part:03}Z"


@functools.lru_cache(maxsize=1)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


class Text(logging.Formatter):
    """Formats a line for people: time, level, object, message, and an indented traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Make the line."""
        key = _object(record)
        subject = f"{'/'.join(part for part in key if part)}: " if key else ""
        line = f"{_time(record)} {record.levelname:7} {subject}{escape(record.getMessage())}"
        line += "".join(f" {name}={value}" for name, value in tracing.ids().items())
        trace = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n    ".join([line, *map(escape, trace)])


class Json(logging.Formatter):
    """Formats a line as JSON: time, level, logger, message, and object and exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Make the line."""
        fields = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        key = _object(record)
        if key:
            fields["namespace"], fields["name"] = key
        fields |= tracing.ids()
        fields["message"] = escape(record.getMessage())
        if record.exc_info:
            lines = self.formatException(record.exc_info).splitlines()
            fields["exception"] = "\n".join(map(escape, lines))
        return json.dumps(fields, ensure_ascii=False)


def configure(level: str, form: str) -> None:
    """Log to stderr in the given form, `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


async def until_ready(why_not: Callable[[], str]) -> None:
    """Wait until nothing keeps the operator from serving; log what does, at growing intervals."""
    logged, pause = time.monotonic(), UNSERVED
    while why := why_not():
        if time.monotonic() - logged >= pause:
            logger.warning("Not ready: %s", why)
            logged, pause = time.monotonic(), min(2 * pause, RARELY)
        await asyncio.sleep(0.05)
