"""Rows that are late for windows or joins, as records of the late topic need them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from headwater.flow.declare.topology.nodes import AsOfJoin, Join, Windowed
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operate.join_operators import StreamJoinOperator
from headwater.flow.operators.windows.assignment import times_of
from headwater.flow.operators.windows.window import Window
from headwater.flow.rows.event_positions import since, time_us, with_time
from headwater.flow.rows.row_batch import AT
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.runs.equality import Integers

LATE_START, LATE_END = "_late_start", "_late_end"


@dataclass(frozen=True)
class LateRowsTask:
    """Keeps the late rows of a frame, with the first window that each lies in where that depends on no other row."""

    window: Window
    watermark_us: int | None
    horizon_us: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times_us, known = times_of(batch.column(AT).field("time"))
            late = self.window.late(times_us, self.watermark_us, self.horizon_us, known)
            if late.any():
                yield self._with_window(batch.filter(pa.array(late)), times_us[late])

    def _with_window(self, rows: pa.RecordBatch, times_us: Integers) -> pa.RecordBatch:
        first = self.window.earliest(times_us)
        bounds = [pa.nulls(rows.num_rows, pa.int64())] * 2 if first is None else [pa.array(one) for one in first]
        return rows.append_column(LATE_START, bounds[0]).append_column(LATE_END, bounds[1])


def late_frame(node: Windowed, frame: DataFrame, watermark_us: int | None) -> DataFrame:
    """Late rows: where they lie, what they were as JSON, and their first window."""
    bounds = [StructField(name, LongType()) for name in (LATE_START, LATE_END)]
    task = LateRowsTask(node.window, watermark_us, node.emission.horizon_us)
    found = frame.mapInArrow(task, StructType([*frame.schema, *bounds]))
    row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
    return found.select(f"{AT}.*", row.alias(LATE), LATE_START, LATE_END)


def late_for_join(node: Join, operator: StreamJoinOperator, left: DataFrame, right: DataFrame) -> DataFrame:
    """The same of rows that are late for a join: events, and versions of a table's rows."""
    if isinstance(node, AsOfJoin):
        right = with_time(right, since(node.versions, right))
    bounds = operator.work.late_below(operator.clock)
    late = [late_events(frame, bound_us) for frame, bound_us in zip((left, right), bounds, strict=True)]
    return late[0].unionByName(late[1])


def late_events(frame: DataFrame, below_us: int | None) -> DataFrame:
    row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
    nothing = f.lit(None).cast("long")
    is_late = f.lit(False) if below_us is None else time_us() < f.lit(below_us).cast("long")
    return frame.where(is_late).select(f"{AT}.*", row.alias(LATE), nothing.alias(LATE_START), nothing.alias(LATE_END))
