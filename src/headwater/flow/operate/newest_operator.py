"""The first rows of each group of a table, in one batch: changes come to the shard of their group."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import Newest as NewestNode
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.shard_operator import ShardOperator, Worked
from headwater.flow.operators.joins.emission import SIDE
from headwater.flow.operators.joins.tables import AFTER, ROW, Side
from headwater.flow.operators.newest import Newest, newest_step
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.shard import ShardState, StateHandle


class NewestOperator(ShardOperator[Newest]):
    @property
    def meaning(self) -> str:
        side = self.work.side
        return f"newest {side.key} {side.on} {self.work.order}"

    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch) -> Worked:
        step = newest_step(self.work, ShardState(handle, shard), rows)
        return Worked(step.changes, (step.run,) if step.run else ())

    def counted(self, rows: pa.RecordBatch) -> int:
        """None: they are changes of a table, which has counted its facts."""
        return 0


def grouped_rows(node: NewestNode, frame: DataFrame, name: str) -> tuple[NewestOperator, DataFrame]:
    """`frame` is both sides of every change of a table. Rows whose group is null are of none."""
    names = visible(frame)
    for column in (*node.key, node.order):
        if column not in names:
            raise InvalidDeclaration(
                f"newest at {node.place}: there is no column {column}", f"There are: {', '.join(names)}."
            )
    columns = arrow_schema(frame.select(*map(quoted, names)).schema)
    plain = pa.schema([pa.field(field.name, field.type) for field in columns])
    side = Side(plain, key_of(node.input), node.key)
    own = f.shiftright(f.xxhash64(*(f.col(quoted(one)) for one in side.key)), 1)
    grouped = [f.col(quoted(column)) for column in node.key]
    known = frame.where(~f.greatest(*(column.isNull() for column in grouped), f.lit(False)))
    chosen = known.select(*map(quoted, names), own.alias(ROW), (f.col(SIDE) == 1).alias(AFTER))
    return NewestOperator(name, Newest(side, node.order, node.limit, node.into)), chosen


def batch_newest(node: NewestNode, frame: DataFrame) -> DataFrame:
    """The same as one query over all rows: numbered by Spark, and collected."""
    grouped = [f.col(quoted(column)) for column in node.key]
    order = [f.col(quoted(node.order)).desc(), *(f.col(quoted(one)) for one in key_of(node.input))]
    numbered = frame.withColumn("_number", f.row_number().over(Over.partitionBy(*grouped).orderBy(*order)))
    known = numbered.where(~f.greatest(*(column.isNull() for column in grouped), f.lit(False)))
    others = [name for name in visible(frame) if name not in node.key]
    row = f.struct("_number", f.struct(*(f.col(quoted(name)) for name in others)).alias("row"))
    rows = (
        known.where(f.col("_number") <= node.limit)
        .groupBy(*grouped)
        .agg(f.array_sort(f.collect_list(row)).alias("_rows"))
    )
    return rows.select(*grouped, f.transform("_rows", lambda one: one["row"]).alias(node.into))
