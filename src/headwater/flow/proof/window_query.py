"""What windows should hold, as plain Spark queries over all rows but those that came too late: the judge of windows.

Nothing is shared with how windows are kept: Spark's own window functions, joins on time, and a calendar made here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Aggregate, Node, Windowed
from headwater.flow.declare.windows import END, FINAL, NUMBER, START, columns_of
from headwater.flow.operators.windows.clock import UPDATES
from headwater.flow.operators.windows.shapes import Calendar, Count, Hopping, Session, Sliding, Tumbling
from headwater.flow.plan.delays import Passed, arriving, reached_us
from headwater.flow.plan.processing_time import as_processed
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.reference_results import judged
from headwater.flow.rows.row_steps import quoted
from headwater.flow.rows.sources import AT

WHEN, WINDOW, OPENS, THERE = "_when", "_window", "_opens", "_there"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POSITION = ("source", "partition", "offset")


@dataclass(frozen=True)
class Past:
    """What a job has decided by time: how far its watermarks were, and which rows came too late for whom."""

    passed: Passed = ()
    """That of the last batch first."""
    late: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Columns source, partition, offset, as `_at` has them."""
    declared: DataFrame | None = None
    """The same rows for people: topic, partition, offset, batch and reason."""
    processed: DataFrame | None = None
    """When parts of partitions were processed (processing_time.py), for windows that go by that."""
    processed_us: int | None = None
    """When the last batch was."""

    def reached_us(self, node: Node) -> int | None:
        """The watermark of what is given to an operator."""
        if isinstance(node, Windowed) and node.processing:
            return self.processed_us
        return reached_us(arriving(node), self.passed)


def window_rows(node: Windowed, frame: DataFrame, past: Past) -> DataFrame:
    """All windows that a view holds at a watermark."""
    late = past.late.get(node)
    timely = frame if late is None else frame.join(late, [frame[AT][name] == late[name] for name in POSITION], "anti")
    if node.processing and past.processed is not None:
        timely = as_processed(timely, past.processed)
    grouped = Aggregate(node.place, node.input, node.by, node.aggregates, node.name)
    own = {WHEN: f.col(f"{AT}.time"), "_position": f.col(AT), THERE: f.lit(1)}
    read = read_aggregates(grouped, timely.withColumns(own), beside=tuple(own))
    # Where a join finds nothing there is a row of nulls, which count(*) would count.
    results = [one for spec in read.specs for one in judged(spec, None if spec.column else f.count(THERE))]
    return _shown(node, _windows(node, read.inputs, results, past), past)


def _windows(node: Windowed, rows: DataFrame, results: list[Column], past: Past) -> DataFrame:
    key = [f.col(quoted(name)) for name in node.by]
    match node.window:
        case Tumbling(size_us, offset_us):
            return _spans(rows.groupBy(*key, _span(size_us, size_us, offset_us)).agg(*results), key)
        case Hopping(size_us, slide_us, offset_us):
            return _spans(rows.groupBy(*key, _span(size_us, slide_us, offset_us)).agg(*results), key)
        case Session(gap_us):
            return _sessions(gap_us, rows, key, results)
        case Calendar():
            return _by_calendar(node.window, rows, key, results)
        case Sliding():
            return _sliding(node.window, rows, node.by, results)
        case Count(size):
            return _counted(size, rows, key, results, past.reached_us(node))


def _sessions(gap_us: int, rows: DataFrame, key: list[Column], results: list[Column]) -> DataFrame:
    # Not Spark's session_window: aggregates of distinct values count one again in each piece that it joins to others.
    order, time = Over.partitionBy(*key).orderBy(WHEN), f.unix_micros(WHEN)
    opens = f.coalesce(time - f.lag(time).over(order) > gap_us, f.lit(True)).cast("int")
    end = f.max(WHEN) + f.expr(f"interval {gap_us} microseconds")
    numbered = rows.withColumn(OPENS, opens).withColumn(WINDOW, f.sum(OPENS).over(order))
    return numbered.groupBy(*key, WINDOW).agg(f.min(WHEN).alias(START), end.alias(END), *results).drop(WINDOW)


def _span(size_us: int, slide_us: int, offset_us: int) -> Column:
    size, slide, offset = (f"{us} microseconds" for us in (size_us, slide_us, offset_us))
    return f.window(WHEN, size, slide, offset).alias(WINDOW)


def _spans(grouped: DataFrame, key: list[Column]) -> DataFrame:
    """With start and end as columns of their own."""
    others = [f.col(quoted(name)) for name in grouped.columns[len(key) + 1 :]]
    return grouped.select(*key, f.col(WINDOW)["start"].alias(START), f.col(WINDOW)["end"].alias(END), *others)


def _by_calendar(window: Calendar, rows: DataFrame, key: list[Column], results: list[Column]) -> DataFrame:
    times = f.unix_micros(WHEN)
    bounds = rows.agg(f.min(times).alias("first"), f.max(times).alias("last")).first()
    starts = [] if bounds is None or bounds["first"] is None else _calendar(window, bounds["first"], bounds["last"])
    spans = rows.sparkSession.createDataFrame(list(pairwise(starts)), f"{START} long, {END} long")
    spans = spans.select(*(f.timestamp_micros(name).alias(name) for name in (START, END)))
    within = (f.col(WHEN) >= f.col(START)) & (f.col(WHEN) < f.col(END))
    return rows.join(spans, within).groupBy(*key, START, END).agg(*results)


def _calendar(window: Calendar, first_us: int, last_us: int) -> list[int]:
    """The beginnings of all windows from before a moment to behind another, counted up day by day."""
    zone, offset = ZoneInfo(window.zone), timedelta(microseconds=window.offset_us)
    day = (EPOCH + timedelta(microseconds=first_us, days=-370)).replace(tzinfo=None, hour=0, minute=0, second=0)
    day = day.replace(microsecond=0)
    found: list[int] = []
    while not found or found[-1] <= last_us:
        begins = {
            "day": True, "week": day.weekday() == 0, "month": day.day == 1,
            "quarter": day.day == 1 and day.month % 3 == 1, "year": day.day == 1 == day.month,
        }  # fmt: skip
        if begins[window.unit]:
            found.append(((day + offset).replace(tzinfo=zone) - EPOCH) // timedelta(microseconds=1))
        day += timedelta(days=1)
    return found


def _sliding(window: Sliding, rows: DataFrame, by: tuple[str, ...], results: list[Column]) -> DataFrame:
    """At every moment at which there is a row, or one leaves: all rows of the size before it."""
    size = f.expr(f"interval {window.size_us} microseconds")
    (moment,) = columns_of(window)
    moments = rows.select(*map(quoted, by), f.col(WHEN).alias(moment))
    if window.on_change:
        moments = moments.union(rows.select(*map(quoted, by), (f.col(WHEN) + size).alias(moment)))
    other = rows.withColumnsRenamed({name: f"_own{place}" for place, name in enumerate(by)})
    on = (f.col(WHEN) <= f.col(moment)) & (f.col(WHEN) > f.col(moment) - size)
    for place, name in enumerate(by):
        on = on & f.col(quoted(name)).eqNullSafe(f.col(f"_own{place}"))
    joined = moments.distinct().join(other, on, "left" if window.on_change else "inner")
    return joined.groupBy(*map(quoted, by), moment).agg(*results)


def _counted(
    size: int, rows: DataFrame, key: list[Column], results: list[Column], watermark_us: int | None
) -> DataFrame:
    """Rows that nothing can come before any more, so many to a window."""
    order = Over.partitionBy(*key).orderBy(WHEN, *(f.col("_position")[name] for name in POSITION))
    settled = rows.where(f.unix_micros(WHEN) < f.lit(watermark_us))
    number = f.floor((f.row_number().over(order) - 1) / size).cast("long")
    grouped = settled.withColumn(NUMBER, number).groupBy(*key, NUMBER)
    full = (f.count(THERE) == size).alias(FINAL)
    return grouped.agg(f.min(WHEN).alias(START), f.max(WHEN).alias(END), *results, full)


def _shown(node: Windowed, windows: DataFrame, past: Past) -> DataFrame:
    """Of all windows those that are told at the watermark."""
    if node.emission.kind == UPDATES:
        return windows.drop(FINAL)
    if not isinstance(node.window, Count):
        windows = windows.withColumn(FINAL, f.coalesce(_complete(node, past), f.lit(False)))
    return windows if node.emission.early else windows.where(FINAL).drop(FINAL)


def _complete(node: Windowed, past: Past) -> Column:
    reached = f.lit(past.reached_us(node)).cast("long")
    match node.window:
        case Session():  # a row at its very end belongs to it
            return f.unix_micros(END) < reached
        case Sliding():
            return f.unix_micros(*columns_of(node.window)) < reached
    return f.unix_micros(END) <= reached
