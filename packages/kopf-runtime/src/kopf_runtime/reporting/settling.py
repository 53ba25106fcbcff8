"""Says how long a state that passes by itself is kept back, before it is written or told.

`status_writer` and `teller` ask it.
Most children are ready within a second, so their object is written once instead of twice.
"""

import time

from kopf_runtime.declaring.kinds import Key

#: Seconds for which a transient state must last before it is written.
SETTLE = 1.0
#: Transient states in a row for which that holds: some troubles have another reason each time.
SEVERAL = 8


class Settling:
    """The transient states of objects since the last right one."""

    def __init__(self) -> None:
        #: The reasons, and since when each has been known.
        self._since: dict[Key, dict[str, float]] = {}

    def forget(self, key: Key) -> None:
        """Forget an object that has another state, or is gone."""
        self._since.pop(key, None)

    def remaining(self, key: Key, reason: str) -> float | None:
        """Return the seconds until a transient state is to be written; None: it is now.

        The work for other objects may lie between two states, so the time that has passed since the
        first one says nothing. But reasons that alternate have lasted, and after `SEVERAL` of them
        the next one is written, whatever it is.
        """
        reasons = self._since.setdefault(key, {})
        since = reasons.setdefault(reason, moment := time.monotonic())
        left = since + SETTLE - moment
        return left if left > 0 and len(reasons) <= SEVERAL else None
