"""From the inputs of a chain of joins in one batch to what its tasks are given: all of them together, in one shuffle.

The left of each join but the first is what the one before it tells, which no frame has: only its columns are known.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.chains import Chain, chosen_before
from headwater.flow.declare.nodes import Join, Node
from headwater.flow.joins.join_inputs import Prepared, PreparedTables
from headwater.flow.joins.join_rows import LEFT_ROW, RIGHT_ROW, WHICH, placed, row_column, together
from headwater.flow.joins.stream_join_task import StreamJoinOperator
from headwater.flow.joins.table_join_task import SIDE, TableJoinOperator
from headwater.flow.operate.reports import COMMIT
from headwater.flow.operators.changes import BEFORE, OPERATION
from headwater.flow.operators.joins.chaining import can_give_on
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.counters import Uncounted
from headwater.flow.rows.row_steps import apply_step, quoted

JOINS = (StreamJoinOperator, TableJoinOperator)
REPORTED = (COMMIT, MISSING, OPERATION, BEFORE)
"""Columns of what operators tell that are not of the rows."""


def that_give_on(chain: Chain, operators: Mapping[Node, object]) -> list[Chain]:
    """The parts of a chain in which each join but the last tells rows that another can be given by the same task."""
    parts: list[Chain] = []
    links: Chain = chain[:1]
    for first, second in pairwise(chain):
        if _gives_on(operators.get(first), operators.get(second)):
            links = (*links, second)
        else:
            parts, links = [*parts, links], (second,)
    return [part for part in (*parts, links) if len(part) > 1]


def _gives_on(first: object, second: object) -> bool:
    """All that is given on is there as it is, and what tells rows apart can be hashed."""
    if not isinstance(first, JOINS) or not isinstance(second, JOINS):
        return False
    told, given = first.work.pairing.columns, second.work.pairing.left
    if any(told.get_field_index(name) < 0 for name in given.names):
        return False
    on = [name for name, _ in second.work.pairing.on]
    hashed = given.names if isinstance(first, StreamJoinOperator) else [*first.key, *on]
    return can_give_on(pa.schema([told.field(name) for name in dict.fromkeys(hashed)]))


def told_columns(frame: DataFrame, operator: StreamJoinOperator | TableJoinOperator, join: Join) -> DataFrame:
    """No rows, with the columns that the left of a join has, which another one makes; `frame` is any."""
    names = [field for field in spark_schema(operator.output) if field.name not in REPORTED]
    columns = [f.lit(None).cast(field.dataType).alias(field.name) for field in names]
    side = [f.lit(1).alias(SIDE)] if isinstance(operator, TableJoinOperator) else []
    rows = frame.sparkSession.range(0).select(*columns, *side)
    for step in chosen_before(join):
        rows = apply_step(step, [rows], Uncounted())
    return rows


def rows_of_all(prepared: Sequence[Prepared | PreparedTables], shards: int) -> DataFrame:
    """Rows of all inputs of a chain, each shard in the partition of its number, or where they are: those that lie by
    partition are brought there as pieces."""
    rows = together(prepared[0].ours, prepared[0].theirs)
    for which, one in enumerate(prepared[1:], 2):
        own = f.col(RIGHT_ROW).alias(row_column(which))
        others = [quoted(name) for name in one.theirs.columns if name not in (WHICH, LEFT_ROW, RIGHT_ROW)]
        right = one.theirs.select(f.lit(which).alias(WHICH), *others, own)
        rows = together(rows, right)
    return rows if lies_by_partition(prepared[0].operator) else placed(rows, prepared[0].keys, shards)


def lies_by_partition(operator: StreamJoinOperator | TableJoinOperator) -> bool:
    return isinstance(operator, StreamJoinOperator) and operator.by_partition
