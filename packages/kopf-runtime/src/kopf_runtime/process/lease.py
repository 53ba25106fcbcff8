"""Leader election with a Lease: one replica works, the others stand by.

`manager` passes the leader's work to `Election.lead`. The rules are client-go's: a candidate
measures by its own clock how long the Lease has not changed, so the replicas' clocks need not
agree, and the leader stops its work before another replica may begin.
"""

import asyncio
import contextlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds of a holder's silence after which a candidate warns of it, and between two warnings, also
#: of the same refusal.
SILENCE = 60.0

#: Seconds for which a released Lease is held, by which it differs from one that somebody emptied.
#: client-go releases a Lease with the same.
RELEASED = 1
#: Seconds that each request may take at least, as in client-go.
SHORTEST = 1.0

Work = Callable[[], Coroutine[Any, Any, None]]


def clock() -> float:
    """Return a time in seconds that runs on while the process is stopped (Linux: or suspended)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Election:
    """One candidate for the Lease.

    `identity` is its name in the Lease: that of the replica, and a suffix of this process alone.
    Another process of the same name, such as a Pod that was deleted by force and still runs, is
    another candidate.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        report: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`report` is called with what lets this replica never lead, again and again."""
        self._report = report
        self.identity = f"{settings.identity}_{secrets.token_hex(4)}"
        self._client = client
        self._metrics = metrics
        self._settings = settings
        self._collection = (
            f"/apis/coordination.k8s.io/v1/namespaces/{settings.lease_namespace}/leases"
        )
        self._lease: dict[str, Any] | None = None  # the Lease as last read or written
        self._version = ""  # its version when we last noted who holds it
        # All of these are by `clock`.
        self._changed = -math.inf  # when we last saw it change
        self._until = -math.inf  # until when somebody else may lead, as far as we have seen
        self._tried = -math.inf  # when we last tried to acquire or renew it
        self._renewed = -math.inf  # when we sent the last successful renewal
        self._warned = -math.inf  # when we last warned of a silent holder
        self._acquired = ""  # when we last acquired it, as we wrote into it
        self._refused = math.inf  # since when the API server has refused it
        self._complained = -math.inf  # when we last logged that
        self._refusal = ""

    def why_never(self) -> str:
        """Return why this replica does not lead, nor can if another stops; empty if it can.

        It is so once the API server has refused the Lease for as long as one lasts.
        """
        lasts = clock() - self._refused > self._settings.lease_duration
        return self._refusal if lasts else ""

    def leads(self) -> bool:
        """Whether this replica may write now.

        The clock runs on while the process is stopped or stuck, so this is false before any task
        has noticed that the Lease expired.
        """
        return self._is_in_time() and self._holder() == self.identity

    async def lead(self, work: Work) -> None:
        """Run the work whenever this replica leads, until cancelled; then release the Lease."""
        try:
            while True:
                await self._acquire()
                logger.info("This replica (%s) leads", self.identity)
                self._metrics.leader.set(1)
                try:
                    await self._while_renewing(work)
                finally:
                    self._metrics.leader.set(0)
                logger.warning("The Lease was not renewed in time; this replica stops leading")
        finally:
            await self._release()

    def _is_in_time(self) -> bool:
        """Whether nobody else may lead, whatever the Lease says, because we have renewed it."""
        return clock() - self._renewed < self._settings.lease_renew_deadline

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110 (another process changes it, so there is no event)
            await asyncio.sleep(self._pause())

    async def _while_renewing(self, work: Work) -> None:
        """Work until the Lease is lost or the deadline for its renewal has passed."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            while self._is_in_time():
                # At once if the last attempt took as long as this, because it was not answered.
                due = self._tried + self._settings.lease_retry_period
                await asyncio.sleep(due - clock())
                left = self._renewed + self._settings.lease_renew_deadline - clock()
                try:
                    async with asyncio.timeout(left):
                        await self._try()
                except TimeoutError:
                    self._metrics.lease_failures.inc()
            working.cancel()

    def _pause(self) -> float:
        """Return the seconds until the next look: when the Lease expires, if that is sooner.

        A standby looks twice in a period, so that it has a released Lease within one.
        """
        left = self._until - clock()
        period = self._settings.lease_retry_period / 2
        return min(period, left + 0.001) if left > 0 else period

    def _holder(self) -> str:
        return str(((self._lease or {}).get("spec") or {}).get("holderIdentity") or "")

    async def _try(self) -> bool:
        """Acquire or renew the Lease; return False if another holds it or there was no answer."""
        try:
            try:
                taken = await self._attempt()
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                # It is not what we knew. Perhaps we changed it, by a request that was not answered.
                self._lease = None
                taken = await self._attempt()
        except ApiError as error:
            if error.status != 409:  # 409: another replica was faster
                self._metrics.lease_failures.inc()
                self._complain(error)
            return False
        self._refused, self._complained = math.inf, -math.inf
        self._metrics.lease_refused.set(0)
        return taken

    def _complain(self, error: ApiError) -> None:
        """Log why the Lease could not be used; report what lasts, as a missing right."""
        now = clock()
        if not (error.final or error.status == 404):  # 404: of its namespace
            logger.warning("The Lease could not be read or written: %s", error)
            return
        settings = self._settings
        self._refused = min(self._refused, now)
        self._refusal = (
            f"the Lease {settings.lease_namespace}/{settings.lease_name} is refused: {error}"
        )
        lasts = bool(why := self.why_never())
        self._metrics.lease_refused.set(lasts)
        since = self._refused + settings.lease_duration  # since when it lasts
        if now - self._complained > SILENCE or (lasts and self._complained <= since):
            self._complained = now
            logger.warning("This replica cannot lead: %s", self._refusal)
            if why:
                self._report(why)

    async def _attempt(self) -> bool:
        """Acquire or renew the Lease; return False if another may hold it; raise `ApiError`."""
        # It counts from the request: the others count from what they see, which is later.
        self._tried = sent = clock()
        if not (self._is_in_time() and self._holder() == self.identity):
            await self._look()
        if not self._is_free(sent):
            self._warn(sent)
            return False
        await self._write(self.identity, self._settings.lease_duration)
        self._renewed = sent
        self._metrics.lease_renewed.set_to_current_time()
        return True

    async def _look(self) -> None:
        """Read the Lease, or create it, and note until when its holder may lead."""
        name = self._settings.lease_name
        try:
            lease = await self._ask("GET", f"{self._collection}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            empty = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": self._settings.lease_namespace},
                "spec": {},
            }
            lease = await self._ask("POST", self._collection, empty)
        self._lease = lease
        former, self._version = self._version, lease["metadata"]["resourceVersion"]
        if self._version != former:
            self._note(lease.get("spec") or {}, is_new=not former)

    def _note(self, spec: dict[str, Any], *, is_new: bool) -> None:
        """Note until when somebody else may lead, now that the Lease has changed."""
        ours = self._settings.lease_duration
        lasts, holder = float(spec.get("leaseDurationSeconds") or 0), spec.get("holderIdentity")
        if self._is_ours(spec) or (not holder and (lasts == RELEASED or (is_new and not lasts))):
            self._until = -math.inf
            return
        if holder:
            self._renewed = -math.inf  # somebody else may lead
        # If somebody emptied or deleted it, its holder does not know yet. Who says how long that
        # one may go on is gone, too.
        self._changed = clock()
        self._until = self._changed + (lasts or ours if holder else ours)

    def _is_ours(self, spec: dict[str, Any]) -> bool:
        """Return whether we have acquired the Lease, and nobody has just written our name there."""
        return spec.get("holderIdentity") == self.identity and (
            spec.get("acquireTime") == self._acquired
        )

    def _is_free(self, now: float) -> bool:
        """Return whether nobody else may lead."""
        if self._is_in_time():
            return self._holder() in ("", self.identity)
        return now > self._until

    def _warn(self, now: float) -> None:
        """Log that the holder is silent: it may be gone, and its Lease last for long."""
        # Another one may renew as rarely as we do.
        if now - max(self._changed, self._warned) > max(SILENCE, self._settings.lease_duration):
            self._warned = now
            logger.warning(
                "The Lease %s is held by %.100s, which has not renewed it for %.0f s; "
                "if that is gone, delete the Lease: kubectl -n %s delete lease %s",
                self._settings.lease_name,
                self._holder(),
                now - self._changed,
                self._settings.lease_namespace,
                self._settings.lease_name,
            )

    async def _write(self, holder: str, duration: float) -> None:
        """Update the version of the Lease that we read; raise `ApiError` 409 if it has changed."""
        assert self._lease is not None
        former = self._lease.get("spec") or {}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        # Also if our name is there, but written by somebody else.
        taken = not (holder and self._is_ours(former))
        self._acquired = now if taken else self._acquired
        body = {
            **self._lease,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": math.ceil(duration),
                "renewTime": now,
                "acquireTime": self._acquired,
                # An int32, which somebody may have set to its maximum.
                "leaseTransitions": (
                    int(former.get("leaseTransitions") or 0) + bool(taken and holder)
                )
                % 2**31,
            },
        }
        path = f"{self._collection}/{self._settings.lease_name}"
        self._lease = await self._ask("PUT", path, body)

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request and return the Lease in its answer; raise `ApiError`.

        A request that is not answered must leave time for another one before the deadline. It
        closes its connection, whose other end may be gone.
        """
        longest = max(self._settings.lease_renew_deadline / 2, SHORTEST)
        try:
            async with asyncio.timeout(longest):
                lease = await self._client.ask(method, path, body, fenced=False)
        except TimeoutError:
            text = f"there was no answer within {longest:g} s"
            raise ApiError(method, path, 0, "Timeout", text) from None
        match lease:
            case {"metadata": {"resourceVersion": str()}, **rest}:
                if isinstance(rest.get("spec") or {}, dict):
                    return lease
        raise ApiError(method, path, 0, "BadAnswer", "the answer is not a Lease")

    async def _release(self) -> None:
        """Release the Lease so that others can begin at once, even if a renewal was under way."""
        self._renewed = -math.inf  # another one may begin before we are answered
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(1.0):
                path = f"{self._collection}/{self._settings.lease_name}"
                self._lease = await self._ask("GET", path)
                if self._is_ours(self._lease.get("spec") or {}):
                    await self._write("", RELEASED)
