"""Leader election with a Lease: one replica works, the others stand by.

`manager` passes the leader's work to `Election.lead`. The rules are client-go's: a candidate
measures by its own clock how long the Lease has not changed, so the replicas' clocks need not
agree, and the leader stops its work before another replica may begin.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from kopf_runtime.cluster.client import Client
from kopf_runtime.cluster.metrics import Metrics
from kopf_runtime.declaring.errors import ApiError
from kopf_runtime.declaring.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds of a holder's silence after which a candidate warns of it, and between two warnings.
SILENCE = 60.0

Work = Callable[[], Coroutine[Any, Any, None]]


def clock() -> float:
    """Return a time in seconds that runs on while the process is stopped (Linux: or suspended)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Election:
    """One candidate for the Lease."""

    def __init__(self, client: Client, settings: Settings, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        self._settings = settings
        self._collection = (
            f"/apis/coordination.k8s.io/v1/namespaces/{settings.lease_namespace}/leases"
        )
        self._lease: dict[str, Any] | None = None  # the Lease as last read
        self._changed = 0.0  # when we last saw it change, by `clock`
        self._renewed = 0.0  # when we sent the last successful renewal
        self._warned = 0.0  # when we last warned of a silent holder

    def leads(self) -> bool:
        """Whether this replica may write now.

        The clock runs on while the process is stopped or stuck, so this is false before any task
        has noticed that the Lease expired.
        """
        held = clock() - self._renewed < self._settings.lease_renew_deadline
        return held and self._holder() == self._settings.identity

    async def lead(self, work: Work) -> None:
        """Run the work whenever this replica leads, until cancelled; then release the Lease."""
        try:
            while True:
                await self._acquire()
                logger.info("This replica (%s) leads", self._settings.identity)
                self._metrics.leader.set(1)
                try:
                    await self._while_renewing(work)
                finally:
                    self._metrics.leader.set(0)
                logger.warning("The Lease was not renewed in time; this replica stops leading")
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110 (another process changes it, so there is no event)
            await asyncio.sleep(self._pause())

    async def _while_renewing(self, work: Work) -> None:
        """Work until the Lease is lost or the deadline for its renewal has passed."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            while clock() - self._renewed < self._settings.lease_renew_deadline:
                await asyncio.sleep(self._settings.lease_retry_period)
                left = self._renewed + self._settings.lease_renew_deadline - clock()
                try:
                    async with asyncio.timeout(max(0.0, left)):
                        renewed = await self._try()
                except TimeoutError:
                    self._metrics.lease_failures.inc()
                    break
                if not renewed and self._holder() not in ("", self._settings.identity):
                    break
            working.cancel()

    def _pause(self) -> float:
        """Return the seconds until the next look: when the Lease expires, if that is sooner.

        A standby looks twice in a period, so that it has a released Lease within one.
        """
        left = self._changed + self._duration() - clock()
        period = self._settings.lease_retry_period / 2
        return min(period, left + 0.001) if left > 0 else period

    def _duration(self) -> float:
        return float(((self._lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0)

    def _holder(self) -> str:
        return str(((self._lease or {}).get("spec") or {}).get("holderIdentity") or "")

    async def _try(self) -> bool:
        """Acquire or renew the Lease; return False if another holds it or there was no answer."""
        sent = clock()
        try:
            if not await self._look() or not self._free(sent):
                self._warn(sent)
                return False
            await self._write(self._settings.identity, self._settings.lease_duration)
        except ApiError as error:
            if error.status != 409:  # 409: another replica was faster
                self._metrics.lease_failures.inc()
                logger.warning("The Lease could not be read or written: %s", error)
            self._lease = None if error.status in (404, 409) else self._lease
            return False
        self._renewed = sent
        self._metrics.lease_renewed.set_to_current_time()
        return True

    async def _look(self) -> bool:
        """Read the Lease unless we hold it; create it if it does not exist."""
        if self._lease is not None and self._holder() == self._settings.identity:
            return True
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
        version = lease["metadata"]["resourceVersion"]
        if self._lease is None or self._lease["metadata"]["resourceVersion"] != version:
            self._changed = clock()
        self._lease = lease
        return True

    def _free(self, now: float) -> bool:
        if self._holder() in ("", self._settings.identity):
            return True
        return now - self._changed > self._duration()

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
        taken = former.get("holderIdentity") != holder
        body = {
            **self._lease,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": math.ceil(duration),
                "renewTime": now,
                "acquireTime": now if taken else former.get("acquireTime", now),
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
        """Send a request and return the Lease in its answer; raise `ApiError`."""
        lease = await self._client.ask(method, path, body, fenced=False)
        match lease:
            case {"metadata": {"resourceVersion": str()}, **rest}:
                if isinstance(rest.get("spec") or {}, dict):
                    return lease
        raise ApiError(method, path, 0, "BadAnswer", "the answer is not a Lease")

    async def _release(self) -> None:
        """Release the Lease so that others can begin at once, even if a renewal was under way."""
        if self._lease is None:
            return
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(1.0):
                path = f"{self._collection}/{self._settings.lease_name}"
                self._lease = await self._ask("GET", path)
                if self._holder() == self._settings.identity:
                    await self._write("", 1)
        self._lease = None
