"""Decides who may scrape /metrics: it asks the API server, as a kubebuilder operator does.

`web` calls it for each scrape. A TokenReview says whose token it is, and a SubjectAccessReview
whether they may `get` the URL `/metrics`. Answers are cached for a while under the token's hash.
The number of reviews for clients that were never accepted is limited, whatever tokens they send.
"""

import asyncio
import hashlib
import logging
import time
from collections import Counter
from typing import Any

import msgspec

from kopf_runtime.cluster.client import Client
from kopf_runtime.declaring.errors import ApiError

logger = logging.getLogger(__name__)

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (no password)
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Seconds for which an answer is valid; then a revoked or granted right takes effect.
ALLOWED, REFUSED = 60.0, 10.0
#: Number of cached answers.
KEPT = 256
#: Unknown tokens that are reviewed within some seconds: of one address, and of all together.
EACH, ALL, WITHIN = 10, 80, 10.0


class Answer(msgspec.Struct, frozen=True):
    """An HTTP status and its explanation; 200 accepts the scraper."""

    status: int
    text: str = ""
    #: Whether the token was accepted before.
    known: bool = False
    at: float = msgspec.field(default_factory=time.monotonic)

    @property
    def counts(self) -> bool:
        """Whether it is recent enough to be used."""
        return time.monotonic() - self.at < (ALLOWED if self.status == 200 else REFUSED)


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    """The fields of a TokenReview and a SubjectAccessReview that are read."""

    status: _Status = _Status()


class Scrapers:
    """Accepts the scrapers that may `get` /metrics."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[bytes, Answer] = {}  # by the token's hash, oldest first
        self._reviews: dict[bytes, asyncio.Task[Answer]] = {}
        self._unknown: Counter[str] = Counter()  # reviewed tokens by address, since:
        self._since = time.monotonic()

    async def judge(self, authorization: str, address: str = "") -> Answer:
        """Return the answer for a request's Authorization header, which may be empty."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or not token.isascii():
            return Answer(401, "Unauthorized: send a bearer token of this cluster.")
        key = hashlib.sha256(token.encode()).digest()
        former = self._answers.get(key)
        if former is not None and former.counts:
            return former
        if key not in self._reviews:
            known = former is not None and former.known
            if not known and not self._affordable(address):
                return Answer(429, "Too many unknown tokens at once: try again later.")
            review = asyncio.create_task(self._review(key, token.strip(), known), name="scraper")
            review.add_done_callback(lambda _: self._reviews.pop(key))
            self._reviews[key] = review
        # A scraper that gives up must not cancel the review for others that wait for it.
        return await asyncio.shield(self._reviews[key])

    def _affordable(self, address: str) -> bool:
        """Count an unknown token; return False if there were too many, of this address or of all.

        A flood from one address uses up the share of that address alone.
        """
        if time.monotonic() - self._since > WITHIN:
            self._unknown, self._since = Counter(), time.monotonic()
        if self._unknown[address] >= EACH or self._unknown.total() >= ALL:
            return False
        self._unknown[address] += 1
        return True

    async def _review(self, key: bytes, token: str, known: bool) -> Answer:
        """Ask the API server about a token, and cache the answer."""
        try:
            answer = await self._ask(token)
        except (ApiError, msgspec.MsgspecError) as error:
            logger.warning("The API server cannot say who may scrape /metrics: %s", error)
            answer = Answer(503, "The API server cannot say who may scrape.", known)
        self._answers.pop(key, None)
        for old in [k for k, a in self._answers.items() if not (a.known or a.counts)]:
            del self._answers[old]
        if len(self._answers) >= KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = answer
        return answer

    async def _ask(self, token: str) -> Answer:
        status = await self._post(TOKEN_REVIEWS, {"token": token})
        if not status.authenticated:
            return Answer(401, "Unauthorized: the token is not valid.")
        user = status.user
        status = await self._post(
            ACCESS_REVIEWS,
            {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        )
        if not status.allowed:
            return Answer(403, f"Forbidden: {user.username} may not get /metrics.")
        return Answer(200, known=True)

    async def _post(self, path: str, spec: dict[str, Any]) -> _Status:
        """Return the result of a review; a standby may ask too, because a review writes nothing."""
        payload = await self._client.request("POST", path, {"spec": spec}, fenced=False)
        return msgspec.json.decode(payload, type=_Review).status
