"""In which window Spark puts a row: days, weeks and months around changes of clocks."""

from datetime import UTC, datetime, timedelta

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headwater.flow.job.window_rows import AT, earliest
from headwater.flow.operators.windows.shapes import Calendar, micros_of
from tests.flow.operators.windows.oracle import turns

HOUR_US = 3_600_000_000
ZONES = ("UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Africa/Cairo")
"""In Havana and Cairo clocks are changed at midnight, on Lord Howe Island by half an hour."""
CALENDARS = [
    *(Calendar("day", zone, halves * HOUR_US // 2) for zone in ZONES for halves in (0, 1, 5)),
    *(Calendar(unit, "Europe/Berlin", 5 * HOUR_US // 2) for unit in ("week", "month", "quarter", "year")),
]
CHANGES = ((2026, 3, 8), (2026, 3, 29), (2026, 4, 5), (2026, 4, 24), (2026, 10, 4), (2026, 10, 25), (2026, 10, 30),
           (2026, 11, 1))  # fmt: skip
TIMES = sorted(
    micros_of(datetime(*day, tzinfo=UTC) + timedelta(minutes=10 * step))
    for day in CHANGES for step in range(-6 * 30, 6 * 30)
)  # fmt: skip


def test_a_row_lies_in_the_window_that_its_moment_is_in_whatever_the_wall_shows(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(time,) for time in TIMES], "us long")
    timed = rows.select("us", f.struct(f.timestamp_micros("us").alias("time")).alias(AT))
    columns = [one.alias(f"{number}") for number, window in enumerate(CALENDARS)
               for one in [f.array(*map(f.expr, earliest(window)))]]  # fmt: skip
    found = timed.select("us", *columns).toArrow()
    times = found["us"].to_numpy()
    for number, window in enumerate(CALENDARS):
        bounds = np.array(turns(window))
        place = np.searchsorted(bounds, times, side="right") - 1
        expected = np.stack([bounds[place], bounds[place + 1]], axis=1).tolist()
        assert found[str(number)].to_pylist() == expected, window
