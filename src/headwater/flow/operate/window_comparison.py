"""Comparisons of windows, in one batch: changes of windows come to the shard of their key, where earlier ones are."""

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import Compared, SourceStream, sources_of
from headwater.flow.formats.schema import nearest, quoted
from headwater.flow.operate.shard_operator import ShardOperator, Worked
from headwater.flow.operators.aggregation.kinds.kind import is_number
from headwater.flow.operators.changes import OPERATION
from headwater.flow.operators.comparisons.compared import Compared as Work
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import START
from headwater.flow.plan.delays import held_us
from headwater.flow.rows.arrow_types import arrow_type
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.manifest import DELETED
from headwater.flow.state.shard import StateHandle


@dataclass(frozen=True)
class CompareOperator(ShardOperator[Work]):
    """Windows of each key, and what they are compared by."""

    horizon_us: int
    """So long after its end a window may change."""
    watermark_us: int | None = None
    """That of the windows in the batch at hand."""

    @property
    def values(self) -> pa.Schema:
        return self.work.results

    @property
    def meaning(self) -> str:
        """State that was dropped at another time is not its own."""
        return f"{self.work.by.names} {self.work.window} {self.work.reach_us} {self.work.retained_us}"

    @property
    def drop_below(self) -> int | None:
        """Before which time no window is needed any more."""
        return None if self.watermark_us is None else self.work.drop_below(self.watermark_us - self.horizon_us)

    def at(self, watermark_us: int | None) -> "CompareOperator":
        return replace(self, watermark_us=watermark_us)

    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch) -> Worked:
        step = self.work.step(WindowState(handle, shard), rows)
        return Worked(step.changes, tuple(step.runs))


def compared_windows(node: Compared, changes: DataFrame, name: str) -> tuple[CompareOperator, DataFrame]:
    """What the operator does, and the frame its shards are given: the windows that changed, as they are now."""
    windows = node.windowed
    assert isinstance(windows.window, AlignedWindow)
    schema = changes.schema
    values = [one for one in visible(changes) if one not in node.key]
    by, kept = (
        pa.schema([pa.field(one, arrow_type(schema[one].dataType)) for one in names]) for names in (windows.by, values)
    )
    _check_columns(node, kept)
    lateness_us = max((one.lateness_us for one in sources_of(node) if isinstance(one, SourceStream)), default=0)
    horizon_us = windows.emission.horizon_us
    work = Work(windows.window, by, kept, node.comparisons, lateness_us + held_us(windows) + horizon_us)
    key = [f.col(quoted(one)) for one in windows.by]
    return CompareOperator(name, work, horizon_us), changes.select(
        *key, f.unix_micros(START).alias(START), *map(quoted, values),
        (f.col(OPERATION) == "d").alias(DELETED),
    )  # fmt: skip


def _check_columns(node: Compared, values: pa.Schema) -> None:
    for name, one in node.comparisons.items():
        if name in (*node.key, *values.names):
            raise InvalidDeclaration(
                f"compare at {node.place} makes column {name}, which its windows have", "Give it another name."
            )
        if one.column not in values.names:
            raise InvalidDeclaration(
                f"compare at {node.place} compares {one.column}, which its windows do not have",
                nearest(one.column, values.names),
            )
        kind = values.field(one.column).type
        if not is_number(kind):
            raise InvalidDeclaration(
                f"compare at {node.place} compares {one.column}, which is {kind}", "Use a column of numbers."
            )
