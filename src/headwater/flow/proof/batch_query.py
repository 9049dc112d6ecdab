"""What an output should hold, as one plain Spark query over everything there is: the reference of the streaming result.

It shares the user's steps with the streaming job, and nothing of how state is kept and merged.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import (
    ARRIVING,
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
from headwater.flow.operate.grouping.table_rows import batch_groups
from headwater.flow.operate.history_operator import batch_history
from headwater.flow.operate.model_operator import model_rows
from headwater.flow.operate.newest_operator import batch_newest
from headwater.flow.operate.tables.table_inputs import batch_table
from headwater.flow.proof.by_batch.arrival_query import change_rows, first_rows, met_rows
from headwater.flow.proof.by_batch.table_history import history
from headwater.flow.proof.compare_query import compared_rows
from headwater.flow.proof.join_query import batch_join, event_rows
from headwater.flow.proof.patterns.pattern_query import pattern_rows
from headwater.flow.proof.plain_query import POSITION, aggregated, newest
from headwater.flow.proof.window_query import Past, window_rows
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import PATH, apply_step
from headwater.flow.rows.sources import AT


def batch_rows(node: Node, frames: Mapping[Source, DataFrame], past: Past | None = None) -> DataFrame:
    """The rows of a stream or a table, once all of the input has been read; of windows, at the time that has come."""
    if isinstance(node, SourceStream):
        return frames[node]
    if isinstance(node, SourceTable):
        return newest(frames[node], node.key, *POSITION, known=known_of(node, past))
    if isinstance(node, Latest):
        return newest(batch_rows(node.input, frames, past), node.key, AT, PATH, known=known_of(node, past))
    if isinstance(node, TableAggregate):
        return batch_groups(node, batch_rows(node.input, frames, past))
    if isinstance(node, Aggregate):
        return aggregated(node, batch_rows(node.input, frames, past), known_of(node, past))
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
    if isinstance(node, ARRIVING):
        return _arrived(node, frames, past or Past())
    return apply_step(node, [batch_rows(one, frames, past) for one in node.inputs], Counter())


def known_of(node: Node, past: Past | None) -> DataFrame | None:
    """What a checkpoint has of an operator."""
    return past.known[1] if past is not None and past.known is not None and past.known[0] is node else None


def _arrived(node: Node, frames: Mapping[Source, DataFrame], past: Past) -> DataFrame:
    """What depends on which rows came in one batch."""
    arrivals = past.arrivals
    if arrivals is None:
        raise FlowError(
            f"{type(node).__name__.lower()} at {node.place} depends on when rows came, which is not known here",
            "Verify the table it is made from.",
        )

    def rows_of(one: Node) -> DataFrame:
        return frames[one] if isinstance(one, SourceTable) else batch_rows(one, frames, past)

    if isinstance(node, Dedupe):
        return first_rows(node, rows_of(node.input), past, arrivals)
    if isinstance(node, LatestJoin):
        return met_rows(node, rows_of(node.left), history(node.right, rows_of, arrivals), arrivals)
    assert isinstance(node, Changes)
    return change_rows(node, history(node.input, rows_of, arrivals))


def input_rows(node: Node, frames: Mapping[Source, DataFrame], past: Past) -> DataFrame | None:
    """The facts that the first operator of a table was given, with the table's key and where each lies."""
    while not isinstance(node, Aggregate | Windowed | Latest | SourceTable):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    if isinstance(node, SourceTable):
        return frames[node]
    rows = batch_rows(node.input, frames, past)
    return rows if AT in rows.columns else None
