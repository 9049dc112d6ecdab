"""From the rows of a batch to what tasks merge with the state of windows: a row for each key and part of a window.

Windows of a fixed place are spread over the shards as they are grouped, key and window together, by one shuffle. Those
that depend on other rows of their key are reduced first and then brought together by key, where that makes them few.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.nodes import Aggregate, SourceStream, Windowed, sources_of
from headwater.flow.job.aggregates import Aggregates, read_aggregates
from headwater.flow.job.counting import Counter
from headwater.flow.job.deduping import LATE
from headwater.flow.job.delays import held_us
from headwater.flow.job.hashing import shard_hash
from headwater.flow.job.merging import ROWS
from headwater.flow.job.stateless import quoted, visible
from headwater.flow.job.window_rows import (
    AT,
    LATE_END,
    LATE_START,
    OWN,
    TIME,
    earliest,
    groups_of,
    is_late,
    measured,
    time_us,
)  # fmt: skip
from headwater.flow.job.windowing import FIXED, WindowOperator
from headwater.flow.operators.aggregates import partials
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.shapes import Calendar, Hopping, Session, Tumbling
from headwater.flow.operators.windows.windowed import Windowed as Work
from headwater.flow.state.manifest import HASH


def reduced_windows(
    node: Windowed, frame: DataFrame, name: str, times: tuple[int | None, int | None], *, shards: int, counter: Counter
) -> tuple[WindowOperator, DataFrame]:
    """What the operator does, and the frame its tasks are given, each shard in the partition of its number.

    `times` are the watermarks of the batch before and of this one.
    """
    if AT not in frame.columns:
        raise InvalidDeclaration(f"window at {node.place} comes behind a step that drops when rows happened")
    emission = node.emission
    clock = WindowClock(*times, emission.horizon_us, emission.kind, emission.early)
    late = is_late(node.window, clock.watermark_us, emission.horizon_us)
    timely = frame if clock.watermark_us is None else counter.watch(frame, late=late).where(~late)
    groups = groups_of(node.window)
    read = _read(node, timely.withColumns({TIME: time_us(), **groups}), tuple(groups))
    by = pa.schema([read.key.field(name) for name in node.by])
    lateness_us = max((one.lateness_us for one in sources_of(node) if isinstance(one, SourceStream)), default=0)
    retained_us = lateness_us + held_us(node) + emission.horizon_us
    work = Work(node.window, by, read.specs, retained_us, clock.marks_final)
    _refuse_taken(node, [spec.name for spec in read.specs])
    sharded = _sharded(node, read, tuple(groups), shards)
    named = {own: own.removeprefix(OWN) for own in (*groups, *measured(node.window))}
    return WindowOperator(name, work, clock, node.processing), sharded.withColumnsRenamed(named)


def late_frame(node: Windowed, frame: DataFrame, watermark_us: int | None) -> DataFrame:
    """Rows that are too late: where they lie, what they were, and their first window if its place is fixed."""
    row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
    window, nothing = node.window, "cast(null as long)"
    start, end = earliest(window) if isinstance(window, Tumbling | Calendar | Hopping) else (nothing, nothing)
    too_late = frame.where(is_late(window, watermark_us, node.emission.horizon_us))
    return too_late.select(f"{AT}.*", row.alias(LATE), f.expr(start).alias(LATE_START), f.expr(end).alias(LATE_END))


def _read(node: Windowed, frame: DataFrame, groups: tuple[str, ...]) -> Aggregates:
    """The user's aggregates, of each key and each part of a window."""
    grouped = Aggregate(node.place, node.input, (*node.by, *groups), node.aggregates, node.name)
    return read_aggregates(grouped, frame, beside=(TIME,) if measured(node.window) else ())


def _refuse_taken(node: Windowed, names: Sequence[str]) -> None:
    if taken := [name for name in names if name in node.reserved]:
        raise InvalidDeclaration(
            f"agg at {node.place} makes column {taken[0]}, which windows have themselves", "Give it another name."
        )


def _sharded(node: Windowed, read: Aggregates, groups: tuple[str, ...], shards: int) -> DataFrame:
    key = [f.col(quoted(name)) for name in node.by]
    if isinstance(node.window, FIXED):
        return _grouped(node, read.inputs, read, groups).withColumn(HASH, shard_hash([*node.by, *groups]))
    own = shard_hash(node.by) if node.by else f.lit(0).cast("long")
    if isinstance(node.window, Hopping | Session):
        return _together(_grouped(node, read.inputs, read, groups), key, shards).withColumn(HASH, own)
    return _grouped(node, _together(read.inputs, key, shards), read, groups).withColumn(HASH, own)


def _grouped(node: Windowed, rows: DataFrame, read: Aggregates, groups: tuple[str, ...]) -> DataFrame:
    columns = [f.expr(part.sql).alias(part.name) for spec in read.specs for part in partials(spec)]
    columns += [column.alias(name) for name, column in measured(node.window).items()]
    grouped = rows.groupBy(*map(quoted, (*node.by, *groups)))
    return grouped.agg(*columns, f.count(f.lit(1)).alias(ROWS))


def _together(rows: DataFrame, key: list[Column], shards: int) -> DataFrame:
    return rows.repartition(shards, *key) if key else rows.repartition(1)
