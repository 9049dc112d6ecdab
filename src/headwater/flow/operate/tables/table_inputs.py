"""From a node of tables and the frames of its inputs to what the operator is, and the same as one query."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from headwater.flow.declare.tables.nodes import Beside, Neighbours, Rank, SetOperation
from headwater.flow.declare.topology.nodes import Node
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.tables.neighbours_operator import batch_neighbours, neighbours_operator
from headwater.flow.operate.tables.pair_operators import batch_beside, batch_set, beside_operator, set_operator
from headwater.flow.operate.tables.rank_operator import batch_ranks, rank_operator
from headwater.flow.operate.tables.table_operator import KeptTable
from headwater.flow.operators.joins.emission import SIDE
from headwater.flow.rows.row_steps import visible


def table_operator(node: Node, frames: Sequence[DataFrame], name: str) -> KeptTable[Any]:
    """InvalidDeclaration if a frame lacks what the operator needs."""
    match node:
        case Rank():
            return rank_operator(node, frames[0], name)
        case Neighbours():
            return neighbours_operator(node, frames[0], name)
        case SetOperation():
            return set_operator(node, frames, name)
        case Beside():
            return beside_operator(node, frames, name)
    raise AssertionError(f"{type(node).__name__} is no operator of tables")


def sides_frame(frame: DataFrame) -> DataFrame:
    """Both sides of changes, as they are prepared for shards."""
    return frame.select(*map(quoted, visible(frame)), SIDE)


def batch_table(node: Node, frames: Sequence[DataFrame]) -> DataFrame:
    """The same as one plain query over all rows."""
    match node:
        case Rank():
            return batch_ranks(node, frames[0])
        case Neighbours():
            return batch_neighbours(node, frames[0])
        case SetOperation():
            return batch_set(node, frames)
        case Beside():
            return batch_beside(node, frames)
    raise AssertionError(f"{type(node).__name__} is no operator of tables")
