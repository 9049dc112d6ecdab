"""From the rows of a batch to what tasks merge with the state of windows: a row for each key and part of a window.

Windows of a fixed place are spread over the shards as they are grouped, key and window together, by one shuffle. Those
that depend on other rows of their key are reduced first and then brought together by key, where that makes them few.

Where rows hardly repeat (repeating.py) nothing is reduced: each is given in the form in which it would be kept if it
were alone, and they come to their shards in pieces (packing.py).
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.nodes import Aggregate, SourceStream, Windowed, sources_of
from headwater.flow.job.aggregates import Aggregates, read_aggregates
from headwater.flow.job.arrow_types import spark_schema
from headwater.flow.job.counting import Counter
from headwater.flow.job.deduping import LATE
from headwater.flow.job.delays import held_us
from headwater.flow.job.hashing import shard_hash
from headwater.flow.job.merging import ROWS
from headwater.flow.job.packing import PIECES, DealingTask, in_shards
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
from headwater.flow.operators.aggregates import partials, taken_singly
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.shapes import Calendar, Hopping, Session, Tumbling
from headwater.flow.operators.windows.windowed import Windowed as Work
from headwater.flow.state.manifest import HASH

PLAIN_KEYS = frozenset(
    ["string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"]
)
"""What Spark groups by as it is. Of others it makes one value of several: 0.0 of −0.0, or what a collation says."""


def reduced_windows(
    node: Windowed, frame: DataFrame, name: str, times: tuple[int | None, int | None], *, shards: int,
    counter: Counter, singly: bool = False,
) -> tuple[WindowOperator, DataFrame]:  # fmt: skip
    """What the operator does, and the frame its tasks are given, each shard in the partition of its number.

    `times` are the watermarks of the batch before and of this one. `singly`: rows are not reduced, if they may be given
    as they are.
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
    if singly and taken_singly(read.specs) and _plain_key(frame, node.by):
        operator = WindowOperator(name, work, clock, node.processing, singly=True)
        return operator, _dealt(operator, node, read, tuple(groups), shards)
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


def _plain_key(frame: DataFrame, by: Sequence[str]) -> bool:
    kinds = [frame.schema[name].dataType.simpleString() for name in by]
    return all(kind in PLAIN_KEYS or kind.startswith("decimal") for kind in kinds)


def _dealt(
    operator: WindowOperator, node: Windowed, read: Aggregates, groups: tuple[str, ...], shards: int
) -> DataFrame:
    """Pieces of single rows, in the partition of their shard."""
    places = {own: f.col(TIME) for own in measured(node.window)} or {own: f.col(own) for own in groups}
    rows = read.inputs.select(
        _own_hash(node, groups).alias(HASH), *map(quoted, node.by),
        *(column.alias(own.removeprefix(OWN)) for own, column in places.items()),
        *(f.expr(part.row or "").alias(part.name) for spec in read.specs for part in partials(spec)),
    )  # fmt: skip
    return in_shards(rows.mapInArrow(DealingTask(operator.given, shards), spark_schema(PIECES)), shards)


def _own_hash(node: Windowed, groups: Sequence[str]) -> Column:
    by = [*node.by, *groups] if isinstance(node.window, FIXED) else node.by
    return shard_hash(by) if by else f.lit(0).cast("long")


def _sharded(node: Windowed, read: Aggregates, groups: tuple[str, ...], shards: int) -> DataFrame:
    key, own = [f.col(quoted(name)) for name in node.by], _own_hash(node, groups)
    if isinstance(node.window, FIXED):
        return _grouped(node, read.inputs, read, groups).withColumn(HASH, own)
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
