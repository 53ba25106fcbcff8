"""etcd_operator.cron: the times of a schedule, in its time zone."""

from datetime import UTC, datetime

import pytest

from etcd_operator.cron import Schedule


@pytest.mark.parametrize(
    ("schedule", "moment", "after"),
    [
        ("0 */6 * * *", "2026-01-01T05:59", "2026-01-01T06:00"),
        ("0 */6 * * *", "2026-01-01T06:00", "2026-01-01T12:00"),
        ("*/15 * * * *", "2026-12-31T23:50", "2027-01-01T00:00"),
        ("5/20 * * * *", "2026-01-01T00:30", "2026-01-01T00:45"),
        ("30 2 1,15 * *", "2026-01-02T00:00", "2026-01-15T02:30"),
        ("0 0 * * sun", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 * * 1-5", "2026-01-02T00:00", "2026-01-05T00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00", "2026-01-02T00:00"),  # either day
        ("0 0 */2 * mon", "2026-01-01T00:00", "2026-01-05T00:00"),  # both: a star
        ("0 0 29 feb *", "2026-01-01T00:00", "2028-02-29T00:00"),
    ],
)
def test_the_next_time(schedule: str, moment: str, after: str) -> None:
    when = Schedule(schedule)
    expected = datetime.fromisoformat(after).replace(tzinfo=UTC)

    assert when.after(datetime.fromisoformat(moment).replace(tzinfo=UTC)) == expected
    assert when.before(expected) == expected


def test_a_time_zone_has_its_summer() -> None:
    when = Schedule("0 3 * * *", "Europe/Berlin")

    assert when.after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert when.after(datetime(2026, 7, 1, tzinfo=UTC)) == datetime(2026, 7, 1, 1, tzinfo=UTC)


def test_a_day_that_never_comes_has_no_time() -> None:
    assert Schedule("0 0 30 feb *").after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("schedule", "zone", "why"),
    [
        ("0 0 * *", "UTC", "has 4 fields"),
        ("60 0 * * *", "UTC", "`60` is not between 0 and 59"),
        ("0 5-3 * * *", "UTC", "`5-3` is not between 0 and 23"),
        ("0 0 * foo *", "UTC", "`foo` is no part of a schedule"),
        ("*/0 * * * *", "UTC", "is not between"),
        ("0 0 * * *", "Mars/Base", "there is no time zone `Mars/Base`"),
    ],
)
def test_what_is_no_schedule_is_told(schedule: str, zone: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Schedule(schedule, zone)
