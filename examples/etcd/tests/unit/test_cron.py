"""etcd_operator.cron: the times of a schedule, in its time zone."""

from datetime import UTC, datetime

import pytest

from etcd_operator.cron import Schedule


@pytest.mark.parametrize(
    ("schedule", "moment", "after"),
    [
        ("0 */6 * * *", "2026-01-01T06:00", "2026-01-01T12:00"),
        ("0 0 * * sun", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 13 * fri", "2026-01-01T00:00", "2026-01-02T00:00"),  # either day
        ("0 0 */2 * mon", "2026-01-01T00:00", "2026-01-05T00:00"),  # both: a star
        ("0 0 29 feb *", "2026-01-01T00:00", "2028-02-29T00:00"),
    ],
)
def test_the_next_time(schedule: str, moment: str, after: str) -> None:
    when = Schedule(schedule)
    expected = datetime.fromisoformat(after).replace(tzinfo=UTC)

    assert when.after(datetime.fromisoformat(moment).replace(tzinfo=UTC)) == expected
    assert when.before(expected) == when.before(expected.replace(second=59)) == expected


def test_a_time_zone_has_its_summer() -> None:
    when = Schedule("0 3 * * *", "Europe/Berlin")

    assert when.after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert when.after(datetime(2026, 7, 1, tzinfo=UTC)) == datetime(2026, 7, 1, 1, tzinfo=UTC)

    skipped = Schedule("30 2 * * *", "Europe/Berlin").after(datetime(2026, 3, 29, tzinfo=UTC))
    assert skipped == datetime(2026, 3, 29, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "why"),
    [
        ("0 0 * *", "UTC", "has 4 fields"),
        ("0 0 0 * * *", "UTC", "has 6 fields"),
        ("60 0 * * *", "UTC", "is no schedule: Bad minute"),
        ("0 0 30 feb *", "UTC", "is no schedule: Bad day-of-month"),
        ("0 0 * * *", "Mars/Base", "there is no time zone `Mars/Base`"),
    ],
)
def test_what_is_no_schedule_is_told(schedule: str, zone: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Schedule(schedule, zone)
