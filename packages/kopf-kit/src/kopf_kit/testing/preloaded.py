"""Makes an operator's process similar to the one in its image, and imports most of what it needs.

It hides the tests' Kubernetes clients, because the image has none. The wall clock is off by the
number of seconds that the file CLOCK contains at that moment, if the environment names one; the
monotonic clock is not affected.
"""

import datetime
import os
import sys
import time
from pathlib import Path
from typing import Any

for client in ("kubernetes", "kubernetes_asyncio", "pykube"):
    sys.modules[client] = None  # type: ignore[assignment]

_time, _datetime = time.time, datetime.datetime


def _shifted() -> float:
    file = os.environ.get("CLOCK")
    return _time() + (float(Path(file).read_text()) if file else 0)


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _datetime.fromtimestamp(_shifted(), tz)


time.time = _shifted
datetime.datetime = _Datetime  # type: ignore[misc]

import kopf_runtime  # noqa: E402, F401
