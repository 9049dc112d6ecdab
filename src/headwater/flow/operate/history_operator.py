"""All versions of a table's rows, in one batch: versions come to the shard of their key."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import History as HistoryNode
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.shard_operator import ShardOperator, Worked
from headwater.flow.operators.history import GONE, UNTIL, History, history_step
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.event_positions import position_of, since, with_time
from headwater.flow.rows.row_steps import visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.state.shard import ShardState, StateHandle


class HistoryOperator(ShardOperator[History]):
    @property
    def meaning(self) -> str:
        return f"history {self.work.by}"

    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch) -> Worked:
        step = history_step(self.work, ShardState(handle, shard), rows)
        return Worked(step.changes, (step.run,) if step.run else ())


def versioned_rows(node: HistoryNode, frame: DataFrame, name: str) -> tuple[HistoryOperator, DataFrame]:
    """`frame` is a row for each version."""
    names = visible(frame)
    _check(node, names, timed=AT in frame.columns)
    plain = arrow_schema(frame.select(*map(quoted, names)).schema)
    columns = pa.schema([pa.field(field.name, field.type) for field in plain])
    dated = _dated(node, frame)
    places = position_of(dated, node.input) | {GONE: _gone(frame), UNTIL: f.unix_micros(_until(node))}
    rows = dated.select(*map(quoted, names), *(column.alias(one) for one, column in places.items()))
    return HistoryOperator(name, History(columns, node.by, node.valid_from, node.valid_to)), rows


def batch_history(node: HistoryNode, frame: DataFrame) -> DataFrame:
    """The same as one query over all versions: each ends where the next of its key begins."""
    keys = [f.col(quoted(one)) for one in node.by]
    others = [one for one in visible(frame) if one not in (*node.by, node.valid_from, node.valid_to)]
    row = f.struct(*(f.col(quoted(one)) for one in others), _gone(frame).alias(GONE), _until(node).alias(UNTIL))
    grouped = _dated(node, frame).groupBy(*keys, f.col(AT)["time"].alias("_since"))
    newest = grouped.agg(f.max_by(row, f.col(AT)).alias("_row"))
    following = f.lead("_since").over(Over.partitionBy(*keys).orderBy("_since"))
    ended = newest.withColumn("_end", f.least(f.col("_row")[UNTIL], following))
    there = ~f.col("_row")[GONE] & (f.col("_end").isNull() | (f.col("_end") > f.col("_since")))
    return ended.where(there).select(
        *keys, f.col("_since").alias(node.valid_from), *(f.col("_row")[one].alias(one) for one in others),
        f.col("_end").alias(node.valid_to),
    )  # fmt: skip


def _dated(node: HistoryNode, frame: DataFrame) -> DataFrame:
    if node.versions is None:
        return frame
    return with_time(frame, since(node.versions, frame))


def _gone(frame: DataFrame) -> Column:
    return f.col(DELETED) if DELETED in frame.columns else f.lit(False)


def _until(node: HistoryNode) -> Column:
    column = node.versions.valid_to if node.versions is not None else None
    return f.col(quoted(column)) if column else f.lit(None).cast("timestamp")


def _check(node: HistoryNode, names: list[str], *, timed: bool) -> None:
    if not timed:
        raise InvalidDeclaration(f"history at {node.place} comes after a step that drops when rows happened")
    if lost := [one for one in node.by if one not in names]:
        raise InvalidDeclaration(f"history at {node.place}: there is no column {lost[0]}", "Keep the key of the table.")
    versions = node.versions
    own = {versions.valid_from, versions.valid_to} if versions is not None else set()
    for said, name in (("valid_from", node.valid_from), ("valid_to", node.valid_to)):
        if name in node.by or (name in names and name not in own):
            raise InvalidDeclaration(
                f"history at {node.place} makes a column {name}, and there is one already", f'Say {said}="...".'
            )
