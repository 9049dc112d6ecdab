"""When rows happened, by clocks that are wrong; and times that cannot be true."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.poison import Poison
from headwater.flow.source.times.clock_rules import ClockRules, DeviceTime
from headwater.flow.source.times.event_time import doubtful, estimated

S, MS = 1_000_000, 1_000
HOUR, DAY, YEAR = 3600 * S, 86_400 * S, 366 * 86_400 * S
NOW = 1_795_000_000 * S
TIME = pa.timestamp("us", "UTC")
DEVICE = DeviceTime("occurred", "sent", None, 7 * DAY, "at")


def column(*times_us: int | None) -> pa.Array:
    return pa.array(times_us, TIME)


def estimate(occurred: Sequence[int | None], sent: Sequence[int | None], received: Sequence[int]) -> Any:
    columns = {"occurred": column(*occurred), "sent": column(*sent)}
    at, poison = estimated(DEVICE, columns, np.array(received, dtype=np.int64) // MS)
    return at.cast(pa.int64()).to_pylist(), poison


# -- three clocks ------------------------------------------------------------------------------------------------------


@st.composite
def journeys(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """When it truly occurred, for how long the device was offline, how wrong its clock is, how long the way took."""
    true = NOW - draw(st.integers(0, 30 * DAY))
    offline = draw(st.integers(0, 48 * HOUR))
    wrong = draw(st.integers(-6 * DAY, 6 * DAY))
    return true, offline, wrong, draw(st.integers(0, 30 * S))


@given(st.lists(journeys(), min_size=1, max_size=20))
def test_true_times_are_recovered_within_the_time_that_the_way_took(found: list[tuple[int, int, int, int]]) -> None:
    occurred = [true + wrong for true, _, wrong, _ in found]
    sent = [true + offline + wrong for true, offline, wrong, _ in found]
    received = [true + offline + way for true, offline, _, way in found]
    at, poison = estimate(occurred, sent, received)
    assert not len(poison.rows)
    for estimated_us, (true, _, _, way) in zip(at, found, strict=True):
        # The record's timestamp counts whole milliseconds.
        assert true - MS <= estimated_us <= true + way


def test_a_clock_that_says_when_it_was_received_goes_before_the_record() -> None:
    device = DeviceTime("occurred", "sent", "received", 7 * DAY, "at")
    columns = {"occurred": column(NOW), "sent": column(NOW + 5 * S), "received": column(NOW + 65 * S)}
    at, _ = estimated(device, columns, np.array([0], dtype=np.int64))
    assert at.cast(pa.int64()).to_pylist() == [NOW + 60 * S]


def test_a_correction_that_is_too_large_is_not_believed() -> None:
    at, poison = estimate([NOW, NOW, NOW], [NOW, NOW - 7 * DAY - S, NOW + 8 * DAY], [NOW, NOW, NOW])
    assert poison.rows.tolist() == [1, 2]
    assert poison.reasons == [
        "sent lies 7 days, 0:00:01 behind the time at which the record was received, "
        "and no correction above 7 days, 0:00:00 is believed",
        "sent lies 8 days, 0:00:00 ahead of the time at which the record was received, "
        "and no correction above 7 days, 0:00:00 is believed",
    ]
    assert at[0] == NOW


def test_without_the_time_of_sending_nothing_can_be_corrected() -> None:
    at, poison = estimate([NOW, None], [None, NOW], [NOW, NOW])
    assert poison.rows.tolist() == [0]
    assert poison.reasons == ["sent: missing, and without it the device's clock cannot be corrected"]
    assert at == [None, None]


# -- bounds ------------------------------------------------------------------------------------------------------------


def judged(
    times_us: list[int | None], records_us: list[int], *, ahead: int | None = DAY, behind: int | None = None
) -> Poison:
    rules = ClockRules(None, ahead, behind)
    return doubtful("at", rules, pa.array(times_us, pa.int64()), np.array(records_us, dtype=np.int64) // MS)


def test_a_time_from_the_future_is_set_aside_with_its_reason() -> None:
    poison = judged([NOW, NOW + DAY, NOW + DAY + MS, 253_402_300_799 * S], [NOW] * 4)
    assert poison.rows.tolist() == [2, 3]
    assert poison.reasons[0] == (
        "at: 2026-11-19T11:06:40.001000+00:00 lies 1 day, 0:00:00.001000 after its record "
        "(2026-11-18T11:06:40+00:00); at most 1 day, 0:00:00 is believed"
    )


def test_a_backfill_is_believed_unless_it_is_said_how_old_a_row_may_be() -> None:
    assert not len(judged([NOW - 30 * YEAR, NOW - 366 * DAY], [NOW, NOW]).rows)
    poison = judged([NOW - 3 * DAY, NOW - 2 * DAY], [NOW, NOW], behind=2 * DAY)
    assert poison.rows.tolist() == [0]
    assert "lies 3 days, 0:00:00 before its record" in poison.reasons[0]
    assert poison.reasons[0].endswith("at most 2 days, 0:00:00 is believed")


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (
            1_000,
            "a thousandth of that: it looks like seconds read as milliseconds, or milliseconds read as microseconds",
        ),
        (1_000_000, "a millionth of that: it looks like seconds read as microseconds"),
    ],
)
def test_a_count_of_seconds_that_was_taken_for_something_smaller_is_recognised(factor: int, sentence: str) -> None:
    poison = judged([NOW // factor, NOW], [NOW + DAY, NOW])
    assert poison.rows.tolist() == [0]
    assert sentence in poison.reasons[0]


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (1_000, "it looks like nanoseconds read as microseconds, or microseconds read as milliseconds"),
        (1_000_000, "it looks like nanoseconds read as milliseconds"),
    ],
)
def test_nanoseconds_that_were_taken_for_something_larger_are_recognised(factor: int, sentence: str) -> None:
    # As milliseconds they would be beyond all times that 64 bits hold, but for those of the seventies.
    right = NOW if factor == 1_000 else NOW // 1_000
    poison = judged([right * factor, right], [right + DAY, right])
    assert poison.rows.tolist() == [0]
    assert poison.reasons[0].endswith(sentence)


def test_times_of_the_seventies_that_fit_nothing_are_as_good_as_others() -> None:
    assert not len(judged([0, 60 * S, 5 * YEAR], [NOW] * 3).rows)


def test_a_record_without_a_timestamp_says_nothing_about_its_row() -> None:
    assert not len(judged([NOW, NOW], [-MS, 0]).rows)


def test_a_row_without_a_time_is_not_doubted() -> None:
    assert judged([None, NOW + 2 * DAY], [NOW, NOW]).rows.tolist() == [1]
    assert not len(judged([None], [NOW]).rows)


def test_without_limits_everything_is_believed() -> None:
    assert not len(judged([NOW // 1000, NOW + YEAR], [NOW, NOW], ahead=None).rows)


times = st.integers(-(2**61), 2**61) | st.integers(NOW - 3 * DAY, NOW + 3 * DAY)


@given(
    st.lists(
        st.tuples(times, st.integers(1, 2**61 // MS) | st.integers(1, 3).map(lambda day: (NOW - day * DAY) // MS)),
        max_size=30,
    )
)
def test_for_any_times_the_rows_beyond_the_limits_are_set_aside(found: list[tuple[int, int]]) -> None:
    rules = ClockRules(None, DAY, 2 * DAY)
    times_us = [time for time, _ in found]
    stamps = np.array([stamp for _, stamp in found], dtype=np.int64)
    poison = doubtful("at", rules, pa.array(times_us, pa.int64()), stamps)
    # Halves of an odd difference are rounded: by one microsecond nobody is judged.
    surely = [
        row for row, (time, stamp) in enumerate(found) if time - stamp * MS > DAY + 2 or stamp * MS - time > 2 * DAY + 2
    ]
    hardly = [row for row, (time, stamp) in enumerate(found) if -2 * DAY <= time - stamp * MS <= DAY]
    assert set(surely) <= set(poison.rows.tolist())
    assert not set(hardly) & set(poison.rows.tolist())
    assert len(poison.reasons) == len(poison.rows)
