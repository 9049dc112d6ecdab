"""The first rows of each group of a table with their places, in one batch: changes come to the shard of their group."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.tables.nodes import Rank as RankNode
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.tables.table_operator import KeptTable
from headwater.flow.operators.joins.tables import Side
from headwater.flow.operators.order_codes import Order
from headwater.flow.operators.ordering import has_order
from headwater.flow.operators.ranks.neighbours import Neighbours
from headwater.flow.operators.ranks.ordered import Ordered
from headwater.flow.operators.ranks.rank import ROW_NUMBER, ROWS, Rank, rank_step
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.prepare.table_sides import PrepareGrouped, PrepareSides, check_columns, columns_of
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.shard import ShardState

InOrder = TypeVar("InOrder", Rank, Neighbours)


class OrderedOperator(KeptTable[InOrder]):
    """Keeps the rows of each group; state that was kept for another order is not its own."""

    @property
    def meaning(self) -> str:
        ordered = self.work.ordered
        return f"ordered {ordered.side.key} {ordered.side.on} {list(map(str, ordered.order))}"

    @property
    def prepares(self) -> Sequence[PrepareSides]:
        return (PrepareGrouped(self.work.ordered.side),)


class RankOperator(OrderedOperator[Rank]):
    def step(self, states: Mapping[str, ShardState], given: Inputs, shard: int) -> TableStep:
        return rank_step(self.work, states[ROWS], given[0])


def rank_operator(node: RankNode, frame: DataFrame, name: str) -> RankOperator:
    """`frame` is both sides of every change of a table."""
    ordered = ordered_of(node.by, node.order, key_of(node.input), columns_of(frame), f"rank at {node.place}")
    if node.into in ordered.side.columns.names:
        raise InvalidDeclaration(
            f"rank at {node.place} makes a column {node.into}, and there is one already", 'Say into="...".'
        )
    work = Rank(ordered, node.how, node.limit, node.into)
    return RankOperator(name, key_of(node.input), work)


def ordered_of(
    by: tuple[str, ...], order: tuple[Order, ...], key: tuple[str, ...], columns: pa.Schema, what: str
) -> Ordered:
    """InvalidDeclaration if a column is not there, or has no order or hash."""
    check_columns(what, (*by, *(one.column for one in order)), columns, grouped=by)
    check_columns(what, key, columns, of_key=True)
    if unordered := [one.column for one in order if not has_order(columns.field(one.column).type)]:
        raise InvalidDeclaration(
            f"{what}: column {unordered[0]} is {columns.field(unordered[0]).type}, which has no order",
            "Order by another column.",
        )
    return Ordered(Side(columns, key, by), order)


def sort_columns(order: tuple[Order, ...]) -> list[Column]:
    """As Spark says it."""
    ways = {
        (False, True): "asc_nulls_first", (False, False): "asc_nulls_last",
        (True, True): "desc_nulls_first", (True, False): "desc_nulls_last",
    }  # fmt: skip
    return [getattr(f.col(quoted(one.column)), ways[one.descending, one.nulls_first])() for one in order]


def batch_ranks(node: RankNode, frame: DataFrame) -> DataFrame:
    """The same as one query over all rows: numbered by Spark."""
    order = sort_columns(node.order)
    if node.how == ROW_NUMBER:
        order += [f.col(quoted(one)) for one in key_of(node.input)]
    over = Over.partitionBy(*map(quoted, node.by)).orderBy(*order)
    place = getattr(f, node.how)().over(over).alias(node.into)
    return frame.select(*map(quoted, visible(frame)), place).where(f.col(quoted(node.into)) <= node.limit)
