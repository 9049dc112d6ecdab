"""Days, weeks and months, also those on which clocks are changed."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.windows.assignment import micros_of
from headwater.flow.operators.windows.kinds.calendar import Calendar, calendar_moved
from tests.flow.operators.windows.oracle import turns
from tests.flow.operators.windows.subjects import Batch, Life, advances, lives, rows_strategy

HOUR_US = 3_600_000_000
CHANGES = (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC))
"""When clocks are put forward and back in Europe."""
STEP_US = HOUR_US * 5 // 4
HORIZON_US = 30 * HOUR_US

zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata"])
offsets = st.sampled_from([0, 5, 6, 12]).map(lambda halves: halves * HOUR_US // 2)
calendars = st.builds(Calendar, st.sampled_from(["day", "week", "month"]), zones, offsets)
emissions = st.sampled_from(
    [
        {"emit": "updates"},
        {"emit": "final"},
        {"emit": "corrections", "horizon": HORIZON_US},
        {"emit": "corrections", "horizon": HORIZON_US, "early": True},
    ]
)


@st.composite
def batches_near_changes(draw: st.DrawFn) -> list[Batch]:
    """Rows some hours or days around a change of clocks, and a watermark that goes through it."""
    near = micros_of(draw(st.sampled_from(CHANGES)))
    batches = draw(st.lists(st.builds(Batch, rows_strategy, advances, st.booleans()), max_size=6))
    for batch in batches:
        batch.rows = [(key, x, near + time * STEP_US) for key, x, time in batch.rows]
        batch.advance *= STEP_US
    return [Batch([], near - 30 * STEP_US), *batches]


@given(lives(calendars, emissions), batches_near_changes())
def test_at_every_moment_the_changes_make_the_right_answer_for_the_rows_accepted_so_far(
    subject: Life, batches: list[Batch]
) -> None:
    subject.live(batches)


@given(st.builds(Calendar, st.sampled_from(["day", "week", "month", "quarter", "year"]), zones, offsets))
def test_each_window_ends_where_the_next_begins_as_if_days_were_counted(window: Calendar) -> None:
    found = turns(window)
    assert [calendar_moved(window, start, 1) for start in found[:-1]] == found[1:]


def test_a_day_has_as_many_hours_as_its_clocks_show() -> None:
    day = Calendar("day", "Europe/Berlin")
    starts = [datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 10, 24, 22, tzinfo=UTC)]
    hours = [(calendar_moved(day, start, 1) - start) / HOUR_US for start in map(micros_of, starts)]
    assert hours == [23, 25]
