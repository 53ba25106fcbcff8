"""Exponential backoff with jitter, for operations that are retried outside the work queue.

Used by `listing`, `reflector`, `external` and `manager`.
"""

import random

#: Seconds of the first and of the longest pause after a failed request to the API server.
FIRST, LONGEST = 0.2, 30.0


class Backoff:
    """A series of pauses in seconds, each twice as long as the one before."""

    def __init__(self, first: float | None = None, longest: float | None = None) -> None:
        self._first = FIRST if first is None else first
        self._longest = LONGEST if longest is None else longest
        self._pause = self._first

    def reset(self) -> None:
        """Start again with the first pause."""
        self._pause = self._first

    def next(self) -> float:
        """Return the next pause.

        The jitter spreads the retries of operations that failed at the same time.
        """
        pause, self._pause = self._pause, min(self._longest, self._pause * 2)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311
