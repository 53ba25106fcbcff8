"""Schedules in cron's syntax, as in Kubernetes CronJobs: five fields and a time zone.

If both the day of the month and the day of the week are limited, a day that fits either one counts,
as in every cron.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

#: The first and the last value of minutes, hours, days, months and days of the week; 7 is Sunday.
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAYS = "sun mon tue wed thu fri sat"
_NAMES = {
    name: number
    for words, first in ((_MONTHS, 1), (_WEEKDAYS, 0))
    for number, name in enumerate(words.split(), first)
}
#: How many days are looked at for the next time: 29 February comes after eight years at the latest.
_DAYS = 8 * 366 + 1


class Schedule:
    """The times at which something should happen."""

    def __init__(self, text: str, zone: str = "UTC") -> None:
        """Parse a schedule; raise `ValueError` if it or the time zone is invalid."""
        if len(fields := text.lower().split()) != len(_BOUNDS):
            raise ValueError(f"`{text}` has {len(fields)} fields; a schedule has five")
        try:
            self._zone = ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ValueError(
                f"there is no time zone `{zone}`; use one such as Europe/Berlin"
            ) from None
        parsed = [_values(*each) for each in zip(fields, _BOUNDS, strict=True)]
        self._minutes, self._hours, self._days, self._months, weekdays = parsed
        self._weekdays = {day % 7 for day in weekdays}
        # As cron has it: `*/2` counts as a star.
        self._both = not fields[2].startswith("*") and not fields[4].startswith("*")

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment; None if no day ever fits, such as 30 February."""
        return self._first(moment, 1)

    def before(self, moment: datetime) -> datetime | None:
        """Return the last time up to a moment; None if no day ever fits."""
        return self._first(moment, -1)

    def _first(self, moment: datetime, step: int) -> datetime | None:
        local = moment.astimezone(self._zone)
        for number in range(_DAYS):
            day = local.date() + timedelta(days=step * number)
            if not self._on(day.month, day.day, day.isoweekday() % 7):
                continue
            times = product(sorted(self._hours), sorted(self._minutes))
            found = {
                datetime(day.year, day.month, day.day, *time, tzinfo=self._zone).astimezone(UTC)
                for time in times
            }
            fits = [one for one in found if (one > moment if step > 0 else one <= moment)]
            if fits:
                return min(fits) if step > 0 else max(fits)
        return None

    def _on(self, month: int, day: int, weekday: int) -> bool:
        by_day, by_weekday = day in self._days, weekday in self._weekdays
        fits = (by_day or by_weekday) if self._both else (by_day and by_weekday)
        return month in self._months and fits


def _values(text: str, bounds: tuple[int, int]) -> set[int]:
    """Return what a field allows, such as `*/15`, `1-5` or `mon,wed`."""
    return {value for part in text.split(",") for value in _part(part, *bounds)}


def _part(text: str, first: int, last: int) -> Iterable[int]:
    values, _, step = text.partition("/")
    low, _, high = values.partition("-")
    try:
        start = first if low == "*" else _number(low)
        end = _number(high) if high else last if low == "*" or step else start
        every = int(step) if step else 1
    except ValueError:
        raise ValueError(f"`{text}` is no part of a schedule") from None
    if not (first <= start <= end <= last and every > 0):
        raise ValueError(f"`{text}` is not between {first} and {last}")
    return range(start, end + 1, every)


def _number(text: str) -> int:
    return _NAMES[text] if text in _NAMES else int(text)
