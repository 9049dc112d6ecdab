"""Statistics from the log to views, for keys and in windows of every kind, and their proof by a plain query."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.flow.job.testing import AppTester
from tests.flow.job.windows_app import moment

Tester = Callable[[hw.App], AppTester]

SCHEMA = "sensor string, x double, y double, n int, good boolean, word string, at timestamp"
EXACT = (
    "count(*) as rows", "var_pop(x) as vp", "var_samp(x) as vs", "variance(n) as vn", "stddev_pop(x) as sp",
    "stddev(x) as ss", "skewness(x) as skew", "kurtosis(x) as kurt", "covar_pop(x, y) as cp", "covar_samp(x, y) as cs",
    "corr(x, y) as r", "regr_count(y, x) as rc", "regr_avgx(y, x) as rx", "regr_avgy(y, x) as ry",
    "regr_sxx(y, x) as sxx", "regr_syy(y, x) as syy", "regr_sxy(y, x) as sxy", "regr_slope(y, x) as slope",
    "regr_intercept(y, x) as intercept", "regr_r2(y, x) as r2", "count_if(good) as goods", "bool_and(good) as every",
    "some(good) as some", "bit_and(n) as ba", "bit_or(n) as bo", "bit_xor(n) as bx", "count(distinct word) as words",
    "count(distinct word, n) as both", "sum(distinct n) as sd", "avg(distinct n) as ad", "count(x, y) as pairs",
    "max(distinct n) as top", "stddev_pop(x) filter (where good) as kept", hw.collect("word", limit=2).alias("first"),
)  # fmt: skip
SOME = ("var_pop(x) as vp", "kurtosis(x) as kurt", "corr(x, y) as r", "count(distinct word) as words",
        "bit_xor(n) as bx", "bool_or(good) as some", hw.collect("word", limit=2).alias("first"))  # fmt: skip


def measured(sensor: str, place: int) -> dict[str, Any]:
    """Values that are null, equal, large, and small, at times that go back and forth."""
    return {
        "sensor": sensor, "x": None if place % 7 == 3 else math.sin(place) * 10 ** (place % 4) + 1e6 * (place % 2),
        "y": None if place % 5 == 4 else place * 0.25, "n": None if place % 6 == 5 else place % 9 - 2,
        "good": None if place % 4 == 3 else place % 3 > 0, "word": None if place % 8 == 7 else f"w{place % 5}",
        "at": moment(place * 3 - 5 * (place % 3)).isoformat(),
    }  # fmt: skip


def fed(plant: AppTester, batches: list[list[dict[str, Any]]]) -> None:
    for rows in batches:
        plant.feed("readings", rows)
        plant.run()


def lab(**tables: Any) -> hw.App:
    """A view for each: of keys, or of a window; and what is aggregated there."""
    app = hw.App("lab", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness="1 minute")
    for name, (window, aggregates) in tables.items():
        cut = readings if window is None else readings.window(window)
        table = cut.by("sensor").agg(*aggregates, name=f"{name}-kept")
        app.view(key=["sensor"] if window is None else ["sensor", "window"], name=name)(lambda table=table: table)
    return app


@pytest.mark.timeout(400)
def test_every_statistic_is_that_of_a_plain_query_for_keys_and_in_windows(tester: Tester) -> None:
    plant = tester(
        lab(keyed=(None, EXACT), trips=(hw.session("8 seconds"), SOME), slid=(hw.sliding("15 seconds"), SOME))
    )
    rows = [measured("ab"[place % 2], place) for place in range(30)]
    fed(plant, [rows[:13], rows[13:]])
    for name in ("keyed", "trips", "slid"):
        assert plant.prove(name).shown == []
    kept = next(row for row in plant.rows("keyed") if row["sensor"] == "a")
    mine = [row["x"] for row in rows if row["sensor"] == "a" and row["x"] is not None]
    assert math.isclose(kept["ss"], statistics.stdev(mine), rel_tol=1e-12)
    assert kept["words"] == len({row["word"] for row in rows if row["sensor"] == "a" and row["word"]})
    assert kept["first"] == ["w2", "w0"]
