"""The error of a request to the API server, and how it is read from an answer.

`client` raises it, and every module that sends requests handles it.
"""

import aiohttp
import msgspec

from kopf_runtime.objects import Failure

_FAILURE = msgspec.json.Decoder(Failure)
#: Characters of a reason; a webhook may answer with a megabyte, and one is kept for each object.
_REASON = 256


class ApiError(Exception):
    """The API server refused a request, or gave no answer (status 0)."""

    def __init__(
        self, method: str, path: str, status: int, reason: str, message: str, after: float = 0.0
    ) -> None:
        super().__init__(f"{method} {path}: {f'{status} ' if status else ''}{reason}: {message}")
        #: The HTTP status, or 0 if there was no answer.
        self.status = status
        #: The machine-readable reason of the Status object, such as `AlreadyExists`.
        self.reason = reason
        #: The server's message for people.
        self.message = message
        #: The seconds of its Retry-After header.
        self.after = after

    @property
    def final(self) -> bool:
        """Whether a retry cannot succeed until somebody changes something."""
        return self.status in (400, 403, 413, 422)

    @property
    def timed_out(self) -> bool:
        """Whether the answer did not come in time."""
        return self.status in (0, 504) and "Timeout" in self.reason


def refusal(method: str, path: str, response: aiohttp.ClientResponse, payload: bytes) -> ApiError:
    """Return the error of a request that was answered with a refusal."""
    try:
        said = _FAILURE.decode(payload)
    except (msgspec.MsgspecError, RecursionError):  # not from the API server: a proxy's page
        said = Failure(payload[:500].decode(errors="replace"))
    after = response.headers.get("Retry-After", "")
    return ApiError(
        method, path, response.status,
        (said.reason or response.reason or "")[:_REASON], said.message[:2000],
        min(float(after), 600.0) if after.isdecimal() and len(after) < 10 else 0.0,
    )  # fmt: skip
