from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.formats.kernels.cells import TEXT, VALID, WRONG, Cells, cells_of_values
from headwater.flow.formats.kernels.times import dates, timestamps

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones)


def cells(texts: list[str]) -> Cells:
    return cells_of_values(pa.array([text.encode() for text in texts], type=pa.binary()), TEXT)


@given(st.lists(moments))
def test_a_timestamp_is_the_moment_that_was_written(written: list[datetime]) -> None:
    values, states = timestamps(cells([moment.isoformat() for moment in written]), zoned=True)
    assert states.tolist() == [VALID] * len(written)
    assert values.tolist() == [(moment - EPOCH) // timedelta(microseconds=1) for moment in written]


@given(st.lists(st.dates()))
def test_a_date_is_the_day_that_was_written(written: list[date]) -> None:
    values, states = dates(cells([str(day) for day in written]))
    assert states.tolist() == [VALID] * len(written)
    assert values.tolist() == [day.toordinal() - date(1970, 1, 1).toordinal() for day in written]


@pytest.mark.parametrize(
    "text",
    ["", "2024", "2024-1-01", "2024-01-01T", "2024-01-01T1", "2024-01-01T10", "2024-01-01T10:", "2024-01-01T10:0",
     "2024-01-01T10:00:", "2024-01-01T10:00:0", "2024-01-01T10:00:00.", "2024-01-01T10:00:60Z", "2024-01-01T10:00Zx",
     "2024-01-01T10:00+1", "2024-01-01T10:00+1:00", "2024-01-01T10:00+19:00", "2024-01-01T10:00+10:60",
     "2024-01-01T10:00+10:0", "2024-00-01", "2024-01-00", "2024-04-31", "-024-01-01", "2024-01-01T-1:00"],
)  # fmt: skip
def test_half_a_time_is_none(text: str) -> None:
    assert timestamps(cells([text]), zoned=True)[1].tolist() == [WRONG]


def test_a_local_time_has_no_zone() -> None:
    states = timestamps(cells(["2024-01-01T10:00", "2024-01-01T10:00Z"]), zoned=False)[1]
    assert states.tolist() == [VALID, WRONG]
