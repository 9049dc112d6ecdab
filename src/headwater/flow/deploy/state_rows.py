"""What a table holds, read from the state of its operator: no row of the log is looked at."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.operate.reports import Operator
from headwater.flow.operators.aggregation.merging import finish_all
from headwater.flow.operators.latest import GONE, Latest
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.state.shard import ShardState, StateHandle, conformed

HASHES = 1 << 64


@dataclass(frozen=True)
class StateRows:
    """Rows of a table in one share of the hashes; runs in Spark's Python workers, a shard to a task."""

    operator: Operator
    handle: str
    first: int | None
    end: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handle = StateHandle.from_json(self.handle)
        for shard in (shard for batch in batches for shard in batch.column(0).to_pylist()):
            yield table_rows(self.operator, ShardState(handle, shard).between(self.first, self.end))


def table_schema(operator: Operator) -> pa.Schema:
    return pa.schema([pa.field(one.name, one.type) for one in (*operator.key, *operator.values)])


def table_rows(operator: Operator, rows: pa.RecordBatch) -> pa.RecordBatch:
    """What rows of the state stand for: the key, and the results."""
    if isinstance(operator.work, Latest):
        rows = rows.filter(pc.invert(rows.column(GONE).fill_null(False)))
        return conformed(rows, table_schema(operator))
    results = finish_all(operator.work, conformed(rows, operator.state.values))
    columns = [*(rows.column(name) for name in operator.key.names), *results.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table_schema(operator))


def state_frame(
    session: SparkSession, operator: Operator, handle: StateHandle, *, share: int, shares: int
) -> DataFrame:
    """One of several shares of a table, cut by the hashes of keys, which are spread evenly."""
    edges = [HASHES * number // shares - HASHES // 2 for number in (share, share + 1)]
    first, end = None if share == 0 else edges[0], None if share + 1 == shares else edges[1]
    task = StateRows(operator, handle.to_json(), first, end)
    return session.range(0, handle.shards, 1, handle.shards).mapInArrow(task, spark_schema(table_schema(operator)))
