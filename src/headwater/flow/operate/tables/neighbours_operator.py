"""Values of neighbours beside the rows of a table, in one batch: changes come to the shard of their group."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.tables.nodes import Neighbours as NeighboursNode
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.tables.rank_operator import OrderedOperator, ordered_of, sort_columns
from headwater.flow.operators.ranks.neighbours import FIRST, LAG, LAST, ROWS, Neighbour, Neighbours, neighbours_step
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.prepare.table_sides import check_columns, columns_of
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.shard import ShardState


class NeighboursOperator(OrderedOperator[Neighbours]):
    def step(self, states: Mapping[str, ShardState], given: Inputs, shard: int) -> TableStep:
        return neighbours_step(self.work, states[ROWS], given[0])


def neighbours_operator(node: NeighboursNode, frame: DataFrame, name: str) -> NeighboursOperator:
    """`frame` is both sides of every change of a table."""
    what, columns = f"{node.values[0].how} at {node.place}", columns_of(frame)
    ordered = ordered_of(node.by, node.order, key_of(node.input), columns, what)
    for one in node.values:
        check_columns(what, (one.column, *([one.default] if one.default else [])), columns)
        if one.into in columns.names:
            raise InvalidDeclaration(f"{what} makes a column {one.into}, and there is one already", 'Say into="...".')
        if one.default and columns.field(one.default).type != columns.field(one.column).type:
            raise InvalidDeclaration(
                f"{what}: column {one.column} is {columns.field(one.column).type}, and its default "
                f"{columns.field(one.default).type}",
                "Cast one of them.",
            )
    return NeighboursOperator(name, key_of(node.input), Neighbours(ordered, node.values))


def batch_neighbours(node: NeighboursNode, frame: DataFrame) -> DataFrame:
    """The same as one query over all rows: found by Spark."""
    by = [quoted(one) for one in node.by]
    order = [*sort_columns(node.order), *(f.col(quoted(one)) for one in key_of(node.input))]
    made = [_column(one, by, order) for one in node.values]
    return frame.select(*map(quoted, visible(frame)), *made)


def _column(one: Neighbour, by: list[str], order: list[Column]) -> Column:
    over, value = Over.partitionBy(*by).orderBy(*order), f.col(quoted(one.column))
    if one.how in (FIRST, LAST):
        whole = over.rowsBetween(Over.unboundedPreceding, Over.unboundedFollowing)
        return (f.first(value) if one.how == FIRST else f.last(value)).over(whole).alias(one.into)
    place = f.row_number().over(over)
    found = (f.lag if one.how == LAG else f.lead)(value, one.offset).over(over)
    if one.default:
        count = f.count(f.lit(1)).over(Over.partitionBy(*by))
        there = place > one.offset if one.how == LAG else place + one.offset <= count
        found = f.when(there, found).otherwise(f.col(quoted(one.default)))
    return found.alias(one.into)
