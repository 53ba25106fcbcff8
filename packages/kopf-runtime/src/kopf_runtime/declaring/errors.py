"""What can go wrong with a request or a reconcile, what it says, and when it is tried again.

`ApiError` is the API server's refusal; every module that sends requests handles it. Authors raise
`RetryError`, `Wait`, `PlanError` and `Denied`.
`Backoff` is for operations that are retried outside the work queue.
"""

import random
import time


class ApiError(Exception):
    """The API server refused a request, or gave no answer (`status` 0).

    `reason` is the word for programs, `message` the server's sentence, `after` its Retry-After in
    seconds, and `about` the plural and the name of the object.
    """

    def __init__(
        self,
        method: str,
        path: str,
        status: int,
        reason: str,
        message: str,
        after: float = 0.0,
        about: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(f"{method} {path}: {f'{status} ' if status else ''}{reason}: {message}")
        self.status, self.reason, self.message = status, reason, message
        self.after, self.about = after, about

    @property
    def final(self) -> bool:
        """Whether a retry cannot succeed until somebody changes something."""
        return self.status in (400, 403, 413, 422)

    @property
    def timed_out(self) -> bool:
        """Whether the answer did not come in time."""
        return self.status in (0, 504) and "Timeout" in self.reason


class DeclarationError(Exception):
    """An author's declaration lacks something, and nothing can be served."""


#: Longest delay of a key in seconds; `min` returns its first argument if the other is NaN.
MAX_RETRY_SECONDS = 600.0


class RetryError(Exception):
    """Call the function again, with a delay that grows each time this happens in a row.

    Raise it in `sync`, `check` or `finalize`. `reason` goes into the message of the condition;
    `after` is the number of seconds, at most 600, before which no event leads to a call either.
    """

    def __init__(self, reason: str, *, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = max(0.0, min(MAX_RETRY_SECONDS, after))


class PlanError(Exception):
    """An author's `desired` returned invalid manifests; a condition says so, nothing is written."""


class Wait(Exception):  # noqa: N818 (it is no error: an author raises it to wait)
    """Leave the children as they are, and say why in the condition; raise it from your functions.

    Raise it in `desired`, `sync` or `check`. `after` is the number of seconds after which it is
    looked at again, at the latest; by default that is left to the next change.
    """

    def __init__(self, reason: str, message: str, after: float | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.after = reason, message, after
        #: When it was made.
        self.at = time.monotonic()


class Denied(Exception):  # noqa: N818 (it is no error: an author raises it to refuse)
    """Refuse a write; raise it in a function of `validate` or `default`.

    The user reads the message: one sentence that says what is wrong, and what to do.
    """


#: Seconds until what needs something that cannot be seen now is tried again, at the latest.
UNSEEN = 5.0
#: Seconds of the first and of the longest pause after a failed request to the API server.
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 30.0


class Backoff:
    """A series of pauses in seconds, each twice as long as the one before, with jitter."""

    def __init__(self, first: float | None = None, longest: float | None = None) -> None:
        self._first = MIN_PAUSE_SECONDS if first is None else first
        self._longest = MAX_PAUSE_SECONDS if longest is None else longest
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
