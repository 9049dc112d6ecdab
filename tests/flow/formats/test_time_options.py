"""Times that do not say where or in what they are counted."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl

BERLIN = {"timeZone": "Europe/Berlin"}


def decoded(*times: object, **options: str) -> Decoded:
    values = pa.array([json.dumps({"at": time}).encode() for time in times], pa.binary())
    return decoder_for("json", parse_ddl("at timestamp"), options).decode(values)


def moments(*times: object, **options: str) -> list[str]:
    return [one.astimezone(UTC).isoformat() for one in decoded(*times, **options).columns.column(0).to_pylist()]


def test_without_an_offset_a_time_is_utc_wherever_the_machine_stands() -> None:
    assert moments("2026-07-01T12:00:00", "2026-07-01T12:00:00+02:00") == [
        "2026-07-01T12:00:00+00:00",
        "2026-07-01T10:00:00+00:00",
    ]


def test_with_a_zone_it_is_what_clocks_show_there() -> None:
    assert moments("2026-07-01T12:00:00", "2026-01-01T12:00:00", "2026-01-01", **BERLIN) == [
        "2026-07-01T10:00:00+00:00",
        "2026-01-01T11:00:00+00:00",
        "2025-12-31T23:00:00+00:00",
    ]


def test_an_offset_that_is_written_goes_before_the_zone() -> None:
    written = ("2026-07-01T12:00:00Z", "2026-07-01T12:00:00z", "2026-07-01T12:00-03:00", "2026-07-01T12:00:00.5+01")
    assert moments(*written, **BERLIN) == moments(*written)


def test_a_time_that_comes_twice_is_the_first() -> None:
    assert moments("2026-10-25T01:59:59", "2026-10-25T02:30:00", "2026-10-25T03:00:00", **BERLIN) == [
        "2026-10-24T23:59:59+00:00",
        "2026-10-25T00:30:00+00:00",
        "2026-10-25T02:00:00+00:00",
    ]


def test_a_time_that_is_left_out_is_as_long_after_the_change_as_it_claims() -> None:
    assert moments("2026-03-29T01:59:59", "2026-03-29T02:30:00", "2026-03-29T03:30:00", **BERLIN) == [
        "2026-03-29T00:59:59+00:00",
        "2026-03-29T01:30:00+00:00",
        "2026-03-29T01:30:00+00:00",
    ]


def test_numbers_count_from_1970_in_every_zone() -> None:
    assert moments(1_795_000_000, timestamp="seconds", **BERLIN) == ["2026-11-18T11:06:40+00:00"]


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "+05:45"]),
    st.lists(st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)), max_size=20),
)
def test_for_any_zone_and_time_python_says_the_same(zone: str, times: list[datetime]) -> None:
    written = [time.isoformat() for time in times]
    found = decoded(*written, timezone=zone).columns.column(0).to_pylist()
    info = ZoneInfo(zone) if "/" in zone else datetime.fromisoformat(f"2026-01-01T00:00:00{zone}").tzinfo
    # Of a time that is left out Python, with fold 0, takes the offset from before the change, too.
    assert found == [time.replace(tzinfo=info).astimezone(UTC) for time in times]


def test_csv_knows_zones_too() -> None:
    values = pa.array([b"2026-07-01T12:00:00"], pa.binary())
    found = decoder_for("csv", parse_ddl("at timestamp"), BERLIN).decode(values).columns.column(0).to_pylist()
    assert found == [datetime(2026, 7, 1, 10, tzinfo=UTC)]


def test_a_local_time_stays_local() -> None:
    values = pa.array([b'{"at": "2026-07-01T12:00:00"}'], pa.binary())
    found = decoder_for("json", parse_ddl("at timestamp_ntz"), BERLIN).decode(values).columns.column(0).to_pylist()
    assert found == [datetime(2026, 7, 1, 12)]


def test_what_a_zone_moves_beyond_the_last_year_is_none() -> None:
    found = decoded("9999-12-31T23:59:59", timezone="-05:00")
    assert found.bad.tolist() == [0]


@pytest.mark.parametrize("options", [{"timeZone": "Europe/Belrin"}, {"timestamp": "nanos"}])
def test_a_zone_or_unit_that_there_is_not_is_refused_before_any_row(options: dict[str, str]) -> None:
    with pytest.raises(InvalidFormat, match=r"option time.* of format json cannot be"):
        decoder_for("json", parse_ddl("at timestamp"), options)


NOW = datetime(2026, 11, 18, 11, 6, 40, tzinfo=UTC)
COUNTED = {name: (NOW - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) * factor for name, factor in
           (("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9))}  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "counted"),
    [
        ("millis", "nanoseconds"), ("millis", "microseconds"), ("micros", "nanoseconds"),
        ("seconds", "milliseconds"), ("seconds", "nanoseconds"),
    ],
)  # fmt: skip
def test_a_number_of_something_smaller_is_recognised_for_what_it_is(unit: str, counted: str) -> None:
    (reason,) = decoded(COUNTED[counted], timestamp=unit).reasons
    assert reason.endswith(f"are no time between the years 1 and 9999: it looks like {counted}")


@pytest.mark.parametrize("counted", list(COUNTED))
def test_a_number_without_a_unit_is_told_what_it_looks_like(counted: str) -> None:
    (reason,) = decoded(COUNTED[counted]).reasons
    assert reason.endswith(f"; it looks like {counted}")
