"""Window assignment without Spark: the same windows, panes, buckets and late rows as row by row and in Spark SQL."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.flow.operators.windows.assignment import POSITION, micros_of, moment_of, times_of
from headwater.flow.operators.windows.kinds.calendar import UNITS, Calendar, calendar_moved
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window
from headwater.flow.state.runs.equality import Integers
from tests.flow.operators.reference import Row
from tests.flow.operators.windows import window_sql
from tests.flow.operators.windows.oracle import calendar_span, is_late, windows_of
from tests.flow.operators.windows.window_sql import AT, OWN
from tests.flow.spark_session import shared_session

HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC", "Pacific/Apia",
         "Africa/Casablanca", "America/St_Johns", "Africa/Cairo")  # fmt: skip
"""Apia had no 30 December 2011. Clocks of Cairo are, and those of St. John's were, put back over midnight."""
OFFSETS = (0, 6 * HOUR_US, HOUR_US // 2, 23 * HOUR_US + 59 * 60_000_000 + 999_999)
CALENDARS = [Calendar(unit, zone, OFFSETS[place % 4]) for place, (unit, zone) in enumerate(product(UNITS, ZONES))]
CALENDARS += [Calendar("day", zone, OFFSETS[place // 2 % 2]) for place, zone in enumerate(ZONES)]
OTHERS: list[Window] = [
    Tumbling(60_000_000), Tumbling(7 * DAY_US + 1, 3 * DAY_US), Hopping(HOUR_US, 7 * 60_000_000, 1_000_000),
    Hopping(3 * DAY_US, DAY_US), Session(HOUR_US), Sliding(HOUR_US), Count(3),
]  # fmt: skip
BEGIN, END = (micros_of(datetime(year, 1, 1, tzinfo=UTC)) for year in (1900, 2201))

calendars = st.builds(Calendar, st.sampled_from(UNITS), st.sampled_from(ZONES), st.sampled_from(OFFSETS))
offsets = st.integers(0, 30)
small = (
    st.builds(Tumbling, st.integers(1, 20), offsets)
    | st.builds(Hopping, st.integers(12, 30), st.integers(1, 12), offsets)
    | st.builds(Session, st.integers(1, 9))
    | st.builds(Sliding, st.integers(1, 9), st.booleans())
    | st.builds(Count, st.integers(1, 4))
)
small_times = st.lists(st.integers(-12, 12), min_size=12, max_size=40)


def changes_of(zone: str, year: int) -> Iterator[int]:
    """When clocks are changed in a year, to the second."""
    info = ZoneInfo(zone)

    def offset(second: int) -> timedelta | None:
        return (moment_of(second * 1_000_000).astimezone(info)).utcoffset()

    first = micros_of(datetime(year, 1, 1, tzinfo=UTC)) // 1_000_000
    for low in range(first, first + 366 * 86_400, 86_400):
        below, above = low, low + 86_400
        if offset(below) != offset(above):
            while above - below > 1:
                middle = (below + above) // 2
                below, above = (middle, above) if offset(middle) == offset(below) else (below, middle)
            yield above * 1_000_000


CHANGES = [change for zone in ZONES for year in (1916, 1945, 1993, 2011, 2026, 2087, 2150)
           for change in changes_of(zone, year)]  # fmt: skip
near_changes = st.builds(lambda change, beside: change + beside, st.sampled_from(CHANGES),
                         st.integers(-30 * HOUR_US, 30 * HOUR_US))  # fmt: skip
any_times = st.integers(BEGIN, END) | near_changes | st.sampled_from(CHANGES)


def integers(values: list[int]) -> Integers:
    return np.array(values, np.int64)


def positions(length: int) -> dict[str, Integers]:
    return {name: np.arange(length) for name in POSITION}


@given(small, st.integers(-40, 40), st.integers(0, 20))
def test_rows_are_late_as_windows_row_by_row_say(window: Window, first: int, horizon: int) -> None:
    rows = [Row(0, 0, time, 0) for time in range(-80, 60)]
    for watermark in (None, *range(first, first + 13)):
        found = window.late(integers([row.time for row in rows]), watermark, horizon)
        assert found.tolist() == [is_late(window, row, watermark, horizon) for row in rows]


@given(small, small_times | st.just([]))
def test_first_windows_are_the_first_that_a_row_is_in(window: Window, times: list[int]) -> None:
    first = window.earliest(integers(times))
    if first is None:
        return
    starts, ends = first
    expected = [min(one.names for one in windows_of(window, [Row(0, 0, time, 0)])) for time in times]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected


@given(small, small_times)
def test_rows_of_a_group_are_always_in_the_same_windows(window: Window, times: list[int]) -> None:
    placed = window.assign(integers(times), positions(len(times)))
    assert tuple(placed) == tuple(field.name for field in window.columns)
    groups = list(zip(*(column.tolist() for column in window.group(placed).values()), strict=True))
    for (one, group), (other, same) in product(zip(times, groups, strict=True), repeat=2):
        if group == same and not isinstance(window, Count):
            both = [Row(0, 0, time, number) for number, time in enumerate((one, other))]
            assert all(len(inside) != 1 for inside in windows_of(window, both).values())
    if isinstance(window, Count):
        assert len(set(groups)) == len(times)


@given(small, small_times | st.just([]))
def test_combined_rows_lie_where_their_group_does(window: Window, times: list[int]) -> None:
    placed = window.assign(integers(times), positions(len(times)))
    groups = list(zip(*(column.tolist() for column in window.group(placed).values()), strict=True))
    order = sorted(range(len(times)), key=lambda row: groups[row])
    begins = [at for at, row in enumerate(order) if at == 0 or groups[row] != groups[order[at - 1]]]
    found = window.combined(placed, integers(order), integers(begins))
    for number, group in enumerate(sorted(set(groups))):
        mine = [row for row in range(len(times)) if groups[row] == group]
        for name, column in found.items():
            own = placed[name][mine]
            assert column[number] == (own.max() if name == "last_time" else own.min())


@given(calendars, st.lists(any_times, max_size=5), st.integers(0, 3 * DAY_US), st.data())
def test_calendar_windows_are_those_of_each_row_by_itself(
    window: Calendar, drawn: list[int], horizon: int, data: st.DataObject
) -> None:
    edges = [start + beside for start in window.earliest(integers(drawn)).starts.tolist() for beside in (-1, 0)]
    times = [*drawn, *edges]
    starts, ends = window.earliest(integers(times))
    expected = [calendar_span(window, time) for time in times]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected
    assert window.assign(integers(times), {})["window_start"].tolist() == starts.tolist()
    for watermark in (data.draw(any_times), *(edge + horizon for edge in edges)):
        assert window.late(integers(times), watermark, horizon).tolist() == (ends + horizon <= watermark).tolist()


@pytest.mark.parametrize("cycles", [-20, -6, 17, 19, 70])
@pytest.mark.parametrize("unit", UNITS)
def test_years_that_datetime_does_not_have_are_placed_as_a_cycle_of_the_calendar_away(unit: str, cycles: int) -> None:
    window = Calendar(unit, "Europe/Berlin", 6 * HOUR_US)
    plain = micros_of(datetime(2400 if cycles > 0 else 800, 1, 1, tzinfo=UTC)) + np.arange(400) * (366 * DAY_US // 17)
    times = plain + cycles * 146_097 * DAY_US
    for expected, found in zip(window.earliest(plain), window.earliest(times), strict=True):
        assert (found - times == expected - plain).all()


def test_one_row_of_a_far_year_does_not_make_all_years_between_be_computed() -> None:
    times = integers([0, micros_of(datetime(9000, 5, 17, 12, tzinfo=UTC))])
    starts, ends = Calendar("day").earliest(times)
    assert starts.tolist() == [0, int(times[1]) - 12 * HOUR_US]
    assert (ends - starts).tolist() == [DAY_US, DAY_US]


@given(calendars, any_times)
def test_the_end_of_a_window_is_the_one_that_is_computed_from_its_start(window: Calendar, time: int) -> None:
    starts, ends = window.earliest(integers([time]))
    assert calendar_moved(window, int(starts[0]), 1) == ends[0]


def test_rows_without_a_time_are_not_late_and_are_known_as_such() -> None:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.int64()):
        times, known = times_of(pa.array([None, 5], kind))
        assert times.tolist() == [0, 5_000 if kind == pa.timestamp("ms") else 5]
        assert known.tolist() == [False, True]
    assert Session(1).late(times, 10, 0, known).tolist() == [False, True]
    assert Session(1).late(times, None, 0, known).tolist() == [False, False]
    assert Tumbling(10).late_before(25) == 20


# -- as in Spark SQL ---------------------------------------------------------------------------------------------------


def some_times() -> Integers:
    """From 1900 to 2200, around changes of clocks, and at the edges of windows."""
    random = Random(11)
    near = [change + step * HOUR_US // 2 + random.randint(-1, 1) for change in CHANGES for step in range(-6, 7, 3)]
    apia = [micros_of(datetime(2011, 12, 29, tzinfo=UTC)) + hour * HOUR_US for hour in range(72)]
    far = integers([random.randint(BEGIN, END) for _ in range(1300)])
    starts = [window.earliest(far[:4]).starts for window in CALENDARS]
    edges = [one + beside for one in starts for beside in (-1, 0)]
    return np.unique(np.concatenate([integers(near), integers(apia), far, *edges, integers([-1, 0, 1])]))


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


def timed(spark: SparkSession, times: Integers) -> DataFrame:
    rows = spark.createDataFrame(pa.table({"us": pa.array(times), "n": pa.array(np.arange(len(times)))}))
    at = f.struct(f.timestamp_micros("us").alias("time"), f.lit(1).alias("source"), f.lit(2).alias("partition"),
                  f.col("n").alias("offset"))  # fmt: skip
    return rows.select("us", "n", at.alias(AT))


def test_calendar_windows_are_those_of_spark_sql(spark: SparkSession) -> None:
    times = some_times()
    assert len(times) > 2000
    columns = [f.array(*map(f.expr, window_sql.earliest(window))).alias(f"{number}")
               for number, window in enumerate(CALENDARS)]  # fmt: skip
    found = timed(spark, times).select("us", "n", *columns).toArrow().sort_by("n")
    assert found["us"].to_numpy().tolist() == times.tolist()
    for number, window in enumerate(CALENDARS):
        expected = np.stack(window.earliest(times), axis=1)
        own = found[str(number)].combine_chunks().flatten().to_numpy().reshape(-1, 2)
        wrong = np.flatnonzero((own != expected).any(axis=1))
        assert not len(wrong), (window, [(moment_of(int(times[at])), own[at], expected[at]) for at in wrong[:3]])


def test_places_and_late_rows_are_those_of_spark_sql(spark: SparkSession) -> None:
    times = some_times()[::5]
    windows, watermark, horizon = [*OTHERS, *CALENDARS[::9]], int(times[len(times) // 2]), 90_000_000
    columns = {f"late{number}": window_sql.is_late(window, watermark, horizon)
               for number, window in enumerate(windows)}  # fmt: skip
    for number, window in enumerate(windows):
        columns |= {f"{name}{number}": column for name, column in window_sql.groups_of(window).items()}
    found = timed(spark, times).withColumns(columns).toArrow().sort_by("n")
    position = {"source": np.full(len(times), 1), "partition": np.full(len(times), 2), "offset": np.arange(len(times))}
    for number, window in enumerate(windows):
        late = window.late(times, watermark, horizon)
        assert late.any()
        assert not late.all()
        assert found[f"late{number}"].to_pylist() == late.tolist(), window
        for name, own in window.group(window.assign(times, position)).items():
            theirs = found[f"{OWN}{name}{number}"].to_numpy()
            assert (theirs == (own * window.gap_us if isinstance(window, Session) else own)).all(), (window, name)


def test_spark_sql_says_null_of_rows_without_a_time(spark: SparkSession) -> None:
    at = "named_struct('time', cast(null as timestamp), 'source', 1, 'partition', 2, 'offset', 3L)"
    row = spark.sql(f"select {at} as {AT}")
    windows = [*OTHERS, CALENDARS[0]]
    late = [window_sql.is_late(window, 0, 0) for window in windows]
    places = [column for window in windows for name, column in window_sql.groups_of(window).items()
              if name.removeprefix(OWN) not in POSITION]  # fmt: skip
    (found,) = row.select(*(column.alias(f"{number}") for number, column in enumerate([*late, *places]))).collect()
    assert set(found) == {None}
