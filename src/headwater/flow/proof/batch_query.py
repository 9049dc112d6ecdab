"""What an output should hold, as one plain Spark query over everything there is: the reference of the streaming result.

It shares the user's steps with the streaming job, and nothing of how state is kept and merged.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import (
    Aggregate,
    AsOfJoin,
    Changes,
    Compared,
    Dedupe,
    History,
    IntervalJoin,
    KMeans,
    Latest,
    LatestJoin,
    Newest,
    Node,
    Recognized,
    Source,
    SourceStream,
    SourceTable,
    TableAggregate,
    TableJoin,
    TableOperator,
    Windowed,
)
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.grouping.table_rows import batch_groups
from headwater.flow.operate.history_operator import batch_history
from headwater.flow.operate.model_operator import model_rows
from headwater.flow.operate.newest_operator import batch_newest
from headwater.flow.operate.tables.table_inputs import batch_table
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.compare_query import compared_rows
from headwater.flow.proof.join_query import batch_join, event_rows
from headwater.flow.proof.pattern_query import pattern_rows
from headwater.flow.proof.tolerances import reference_columns
from headwater.flow.proof.window_query import Past, window_rows
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import PATH, apply_step, visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.rows.tie_breaking import path_order


def batch_rows(node: Node, frames: Mapping[Source, DataFrame], past: Past | None = None) -> DataFrame:
    """The rows of a stream or a table, once all of the input has been read; of windows, at the time that has come."""
    if isinstance(node, SourceStream):
        return frames[node]
    if isinstance(node, SourceTable):
        return _newest(frames[node], node.key, f"{AT}.partition", f"{AT}.offset")
    if isinstance(node, Latest):
        return _newest(batch_rows(node.input, frames, past), node.key, AT, PATH)
    if isinstance(node, TableAggregate):
        return batch_groups(node, batch_rows(node.input, frames, past))
    if isinstance(node, Aggregate):
        return _aggregated(node, batch_rows(node.input, frames, past))
    if isinstance(node, Windowed):
        return window_rows(node, batch_rows(node.input, frames, past), past or Past())
    if isinstance(node, Compared):
        return compared_rows(node, batch_rows(node.input, frames, past))
    if isinstance(node, KMeans):
        return model_rows(node, batch_rows(node.input, frames, past))
    if isinstance(node, IntervalJoin | AsOfJoin):
        left, right = (batch_rows(one, frames, past) for one in node.inputs)
        return event_rows(node, left, right, past or Past(), list(frames))
    if isinstance(node, Recognized):
        return pattern_rows(node, batch_rows(node.input, frames, past), past or Past(), list(frames))
    if isinstance(node, Newest):
        return batch_newest(node, batch_rows(node.input, frames, past))
    if isinstance(node, TableOperator) and not isinstance(node, TableJoin):
        return batch_table(node, [batch_rows(one, frames, past) for one in node.inputs])
    if isinstance(node, History):
        return batch_history(node, batch_rows(node.input, frames, past))
    if isinstance(node, TableJoin):
        return batch_join(node, *(batch_rows(one, frames, past) for one in node.inputs))
    if isinstance(node, Changes | Dedupe | LatestJoin):
        raise FlowError(
            f"{type(node).__name__.lower()} at {node.place} depends on when rows came, which no batch query can know",
            "Verify the table it is made from.",
        )
    return apply_step(node, [batch_rows(one, frames, past) for one in node.inputs], Counter())


def input_rows(node: Node, frames: Mapping[Source, DataFrame]) -> DataFrame | None:
    """The facts that the first operator of a table was given, with the table's key and where each lies."""
    while not isinstance(node, Aggregate | Windowed | Latest | SourceTable):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    if isinstance(node, SourceTable):
        return frames[node]
    rows = batch_rows(node.input, frames)
    return rows if AT in rows.columns else None


def _newest(frame: DataFrame, key: tuple[str, ...], *by: str) -> DataFrame:
    values = [name for name in visible(frame) if name not in key]
    gone = f.col(DELETED) if DELETED in frame.columns else f.lit(False)
    row = f.struct(*(f.col(quoted(name)) for name in values), gone.alias("_gone"))
    there = [name for name in by if name.split(".")[0] in frame.columns]
    order = f.struct(*(path_order(frame) if name == PATH else f.col(name) for name in there))
    newest = frame.groupBy(*map(quoted, key)).agg(f.max_by(row, order).alias("_row"))
    return newest.where(~f.col("_row._gone")).select(
        *map(quoted, key), *(f.col("_row")[name].alias(name) for name in values)
    )


def _aggregated(node: Aggregate, frame: DataFrame) -> DataFrame:
    read = read_aggregates(node, frame)
    columns = [column for spec in read.specs for column in reference_columns(spec)]
    return read.inputs.groupBy(*map(quoted, node.key)).agg(*columns)
