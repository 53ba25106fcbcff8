"""Makes the operator's process similar to the one in its image; Python imports this first.

It hides the tests' Kubernetes clients, because the image has none. If CLOCK names a file, the wall
clock is off by the number of seconds that the file contains at that moment; the monotonic clock is
not affected.
"""

import datetime
import os
import sys
import time
from pathlib import Path
from typing import Any

for client in ("kubernetes", "kubernetes_asyncio", "pykube"):
    sys.modules[client] = None  # type: ignore[assignment]

if "CLOCK" in os.environ:
    _file, _time, _datetime = Path(os.environ["CLOCK"]), time.time, datetime.datetime

    class _Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return _datetime.fromtimestamp(_time() + float(_file.read_text()), tz)

    time.time = lambda: _time() + float(_file.read_text())
    datetime.datetime = _Datetime  # type: ignore[misc]
