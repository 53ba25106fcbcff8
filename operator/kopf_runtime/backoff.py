"""Pauses that grow: what fails again and again is tried less and less often.

Used by what tries again by itself: `listing`, `reflector`, `external` and `manager`.
"""

import random

#: Seconds of the first pause after a request to the API server failed, and of the longest.
FIRST, LONGEST = 0.2, 30.0


class Backoff:
    """Pauses in seconds, each twice as long as the one before."""

    def __init__(self, first: float | None = None, longest: float | None = None) -> None:
        self._first = FIRST if first is None else first
        self._longest = LONGEST if longest is None else longest
        self._pause = self._first

    def reset(self) -> None:
        """Begin again at the first pause."""
        self._pause = self._first

    def next(self) -> float:
        """Return the next pause.

        With jitter, so that those who failed together do not come back together.
        """
        pause, self._pause = self._pause, min(self._longest, self._pause * 2)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311
