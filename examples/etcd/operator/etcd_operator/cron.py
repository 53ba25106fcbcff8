"""Schedules in cron's syntax, as in Kubernetes CronJobs: five fields and a time zone.

If both the day of the month and the day of the week are limited, a day that fits either one counts.
What falls into the hour that a time zone skips in spring happens right after it.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError


class Schedule:
    """The times at which something should happen."""

    def __init__(self, text: str, zone: str = "UTC") -> None:
        """Parse a schedule; raise `ValueError` if it or the time zone is invalid."""
        if len(fields := text.split()) != 5:  # a sixth one would be of seconds
            raise ValueError(f"`{text}` has {len(fields)} fields; a schedule has five")
        try:
            self._zone = ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ValueError(
                f"there is no time zone `{zone}`; use one such as Europe/Berlin"
            ) from None
        self._text = text
        try:
            self.after(datetime.now(UTC))
        except CronSimError as error:
            raise ValueError(f"`{text}` is no schedule: {error}") from None

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment; None if it is not within 50 years."""
        times = CronSim(self._text, moment.astimezone(self._zone))
        return _utc(next(times, None))

    def before(self, moment: datetime) -> datetime | None:
        """Return the last time up to a moment; None if it is not within 50 years."""
        end = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        times = CronSim(self._text, end.astimezone(self._zone), reverse=True)
        return _utc(next(times, None))


def _utc(moment: datetime | None) -> datetime | None:
    return moment.astimezone(UTC) if moment is not None else None
