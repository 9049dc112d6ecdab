"""Set operations, and a table beside a single row, in one batch: changes of both tables come to the shards."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.tables.nodes import Beside as BesideNode
from headwater.flow.declare.tables.nodes import SetOperation as SetNode
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.tables.table_operator import KeptTable
from headwater.flow.operators.joins.tables import Side
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.operators.tables.beside import EMPTY, HAS_NULL, Beside, beside_step
from headwater.flow.operators.tables.sets import INTERSECT, ROWS, SetOperation, set_step
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.prepare.table_sides import (
    PrepareCounted,
    PrepareEverywhere,
    PrepareGrouped,
    PrepareSides,
    check_columns,
    columns_of,
)
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.shard import ShardState


class SetOperator(KeptTable[SetOperation]):
    @property
    def meaning(self) -> str:
        return "how often each of two tables has a row"

    @property
    def prepares(self) -> Sequence[PrepareSides]:
        return (PrepareCounted(self.work.rows), PrepareCounted(self.work.rows))

    def step(self, states: Mapping[str, ShardState], given: Inputs, shard: int) -> TableStep:
        return set_step(self.work, states[ROWS], (given[0], given[1]))


class BesideOperator(KeptTable[Beside]):
    @property
    def meaning(self) -> str:
        return f"beside {self.work.table.key} {self.work.single.key}"

    @property
    def prepares(self) -> Sequence[PrepareSides]:
        return (PrepareGrouped(self.work.table), PrepareEverywhere(self.work.single))

    def step(self, states: Mapping[str, ShardState], given: Inputs, shard: int) -> TableStep:
        return beside_step(self.work, states, (given[0], given[1]), shard)


def set_operator(node: SetNode, frames: Sequence[DataFrame], name: str) -> SetOperator:
    left, right = map(columns_of, frames)
    what = f"{node.method} at {node.place}"
    if sorted(left.names) != sorted(right.names):
        one = next(name for name in (*left.names, *right.names) if name not in left.names or name not in right.names)
        side, other = ("left", "right") if one in left.names else ("right", "left")
        raise InvalidDeclaration(
            f"{what}: the {side} has column {one}, and the {other} has not",
            "Choose the same columns of both with select(...): they are matched by name.",
        )
    for field in left:
        if field.type != right.field(field.name).type:
            raise InvalidDeclaration(
                f"{what}: column {field.name} of the left is {field.type}, "
                f"and of the right {right.field(field.name).type}",
                f'Make them the same, for example with with_columns({field.name}="cast({field.name} as ...)").',
            )
        if not can_hash(field.type):
            raise InvalidDeclaration(
                f"{what}: column {field.name} has no order and no hash, as it is or has a map", "Choose other columns."
            )
    if node.copy in left.names:
        raise InvalidDeclaration(f"{what} numbers copies as {node.copy}, which is a column of both", 'Say copy="...".')
    work = SetOperation(left, node.how, node.copy)
    if set(node.key) != set(work.columns.names):
        raise InvalidDeclaration(
            f"{what}: its columns are {', '.join(left.names)}, which is not certain before Spark reads it",
            "Name them with select(...) before it.",
        )
    return SetOperator(name, tuple(work.columns.names), work)


def beside_operator(node: BesideNode, frames: Sequence[DataFrame], name: str) -> BesideOperator:
    left, right = map(columns_of, frames)
    own, other = key_of(node.left), key_of(node.right)
    what = f"{'join' if node.guarded else 'with_scalar'} at {node.place}"
    check_columns(what, own, left, of_key=True)
    taken = [one.lower() for one in left.names]
    if not node.guarded and (twice := [one for one in right.names if (node.prefix + one).lower() in taken]):
        raise InvalidDeclaration(
            f"both tables of {what} have a column {node.prefix + twice[0]}",
            'Say prefix="..." for those of the single row.',
        )
    lost = [one for one in other if one not in right.names]
    work = Beside(
        Side(left, own, own), Side(right, () if lost else other, ()), str(node.place), node.prefix, node.guarded
    )
    return BesideOperator(name, own, work)


def batch_set(node: SetNode, frames: Sequence[DataFrame]) -> DataFrame:
    names = [quoted(one) for one in visible(frames[0])]
    left, right = (frame.select(*names) for frame in frames)
    if not node.copy:
        return left.intersect(right) if node.how == INTERSECT else left.subtract(right)
    made = left.intersectAll(right) if node.how == INTERSECT else left.exceptAll(right)
    return made.withColumn(node.copy, f.row_number().over(Over.partitionBy(*names).orderBy(*names)).cast("long"))


def batch_beside(node: BesideNode, frames: Sequence[DataFrame]) -> DataFrame:
    left, right = (frame.select(*map(quoted, visible(frame))) for frame in frames)
    if not node.guarded:
        named = right.select(*(f.col(quoted(one)).alias(node.prefix + one) for one in right.columns))
        return left.join(named, f.lit(True), "left")
    names = [f.col(quoted(one)) for one in left.columns]
    facts = right.select(f.col(EMPTY).alias("_empty"), f.col(HAS_NULL).alias("_has_null"))
    certain = f.col("_empty") | (~f.col("_has_null") & f.col(quoted(node.guarded)).isNotNull())
    return left.crossJoin(facts).where(certain).select(*names)
