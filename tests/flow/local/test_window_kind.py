"""A new kind of window is one class and its line in the registry: nothing else has to know of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.deploy.code_changes import worded
from headwater.flow.operators.comparisons.kinds import Ago
from headwater.flow.operators.windows.aligned import DisjointWindow, ended
from headwater.flow.operators.windows.assignment import Spans
from headwater.flow.operators.windows.kinds import registry
from headwater.flow.operators.windows.step import END, START
from headwater.flow.operators.windows.window import COMPLETE, WHEN
from headwater.flow.run.app_tester import AppTester
from headwater.flow.state.runs.equality import Integers
from headwater.testing import running_node

LONG_US, SHORT_US = 120_000_000, 60_000_000
CYCLE_US = LONG_US + SHORT_US


@dataclass(frozen=True)
class Shifts(DisjointWindow):
    """Two minutes and one minute in turn, since 1970."""

    name: str

    @property
    def in_words(self) -> str:
        return f"shifts of {self.name}"

    @property
    def longest_us(self) -> int:
        return LONG_US

    @property
    def apart_us(self) -> int:
        return LONG_US

    def earliest(self, times_us: Integers) -> Spans:
        cycles, within = np.divmod(times_us, CYCLE_US)
        starts = cycles * CYCLE_US + np.where(within < LONG_US, 0, LONG_US)
        return Spans(starts, self.ends(starts))

    def ends(self, starts_us: Integers) -> Integers:
        return self.moved(starts_us, 1)

    def next_end_us(self, now_us: int) -> int:
        return int(self.earliest(np.array([now_us])).ends[0])

    def slot_ranges(self, starts_us: Integers, slot_us: int) -> tuple[Integers, Integers]:
        return starts_us, self.ends(starts_us)

    def moved(self, starts_us: Integers, count: int) -> Integers:
        index = starts_us // CYCLE_US * 2 + (starts_us % CYCLE_US != 0) + count
        return np.asarray(index // 2 * CYCLE_US + index % 2 * LONG_US, np.int64)

    def landing(self, ago: Ago, place: Place) -> Ago:
        raise InvalidDeclaration(f"compare() at {place} looks back in time", "Say how many shifts.")

    def reference_earlier(self, start: Column, ago: Ago) -> Column:
        halves = f.when(f.unix_micros(start) % CYCLE_US == 0, LONG_US).otherwise(SHORT_US)
        assert ago.windows == 1
        return f.timestamp_micros(f.unix_micros(start) - (CYCLE_US - halves))

    def reference(
        self, rows: DataFrame, by: tuple[str, ...], results: list[Column], reached_us: int | None
    ) -> DataFrame:
        minute = f.floor(f.unix_micros(WHEN) / 60_000_000)
        start = f.when(minute % 3 == 2, minute).otherwise(minute - minute % 3)
        length = f.when(minute % 3 == 2, 1).otherwise(2)
        bounds = [f.timestamp_seconds(one * 60).alias(name) for one, name in ((start, START), (start + length, END))]
        return rows.groupBy(*by, *bounds).agg(*results).withColumn(COMPLETE, ended(reached_us))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registry.KINDS.append(Shifts)
    yield
    registry.KINDS.remove(Shifts)


def plant() -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", "sensor string, value long, at timestamp", time="at")

    @app.view(key=["sensor", "window"])
    def shifts() -> Any:
        return readings.window(Shifts("oven")).by("sensor").agg("sum(value) as total", emit="final")

    @app.view(key=["sensor", "window"])
    def compared() -> Any:
        counted = readings.window(Shifts("oven")).by("sensor").agg("count(*) as n")
        return counted.compare(more=hw.change("n"))

    return app


def reading(minute: int, value: int) -> dict[str, Any]:
    return {"sensor": "a", "value": value, "at": f"2026-03-01T09:{minute:02}:30Z"}


def test_a_kind_that_only_the_registry_knows_is_declared_run_compared_and_verified(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_node(tmp_path) as node:
        tester = AppTester(plant(), node, lambda: spark)
        assert tester.needs_spark == {}
        tester.feed("readings", [reading(minute, 10**minute) for minute in (0, 1, 2, 3)], at="2026-03-01T09:00:00Z")
        tester.run()
        assert totals(tester) == [(0, 2, 11), (2, 3, 100)], "the last is not complete"
        tester.feed("readings", [reading(1, 1), reading(5, 1)], at="2026-03-01T09:00:00Z")
        tester.flush()
        assert totals(tester) == [(0, 2, 11), (2, 3, 100), (3, 5, 1000), (5, 6, 1)]
        late = {(one["window"]["start"], one["window"]["end"]) for one in tester.values("plant.readings.late")}
        assert late == {("2026-03-01T09:00:00Z", "2026-03-01T09:02:00Z")}
        more = {row["window_start"].minute: row["more"] for row in tester.rows("compared")}
        assert more == {0: None, 2: -1, 3: 0, 5: 0}
        for view in ("shifts", "compared"):
            assert tester.prove(view).different == 0


def totals(tester: AppTester) -> list[tuple[int, int, int]]:
    return [
        (row["window_start"].minute, row["window_end"].minute, row["total"]) for row in tester.rows("shifts")
    ]  # fmt: skip


def test_such_a_kind_is_said_in_words_where_plans_and_changes_are() -> None:
    assert worded("windowed window", str(Shifts("oven"))) == "shifts of oven"
