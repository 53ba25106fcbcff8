"""The error with which any step of a reconcile asks to be tried again.

Many modules raise it, authors do too, and `queue` obeys it.
"""

#: Longest delay of a key in seconds; `min` returns its first argument if the other is NaN.
LONGEST = 600.0


class RetryError(Exception):
    """Requeue the key, with a delay that grows each time this happens in a row."""

    def __init__(
        self, reason: str, *, after: float = 0.0, pause: float = 0.0, timed_out: bool = False
    ) -> None:
        super().__init__(reason)
        #: Seconds for which no event may requeue the key either (an API server's Retry-After).
        self.after = max(0.0, min(LONGEST, after))
        #: Minimum delay in seconds, unless an event requeues the key earlier.
        self.pause = max(0.0, min(LONGEST, pause))
        #: Whether a request timed out: the next attempt's requests get more time.
        self.timed_out = timed_out
        #: Whether the reason has already been reported elsewhere.
        self.told = False
