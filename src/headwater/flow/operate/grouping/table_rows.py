"""From the node of a grouped table and both sides of its input's changes to the operator, and how rows are prepared."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import TableAggregate
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.grouping.group_operator import GroupOperator
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.grouping.changed_rows import WEIGHT
from headwater.flow.operators.grouping.grouped import Grouped
from headwater.flow.operators.grouping.recomputed import placed
from headwater.flow.operators.grouping.registry import held_of
from headwater.flow.operators.joins.emission import AFTER_SIDE, SIDE
from headwater.flow.operators.keyed import inner_keys
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.prepare.aggregates import Aggregates, read_aggregates
from headwater.flow.prepare.reduced_rows import key_hashes, normal_keys
from headwater.flow.proof.tolerances import reference_columns
from headwater.flow.rows.arrow_types import nullable
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed


@dataclass(frozen=True)
class WeighRows:
    """Sends both sides of changes to the shard of their group: rows that are, with 1; rows that were, with −1."""

    key: pa.Schema
    schema: pa.Schema

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        columns = {name: rows.column(name) for name in rows.schema.names}
        is_after = np.asarray(pc.equal(rows.column(SIDE), AFTER_SIDE))
        columns[WEIGHT] = pa.array(np.where(is_after, 1, -1))
        keys = normal_keys(conformed(inner_keys(rows, self.key), self.key), self.key)
        columns |= {name: keys.column(name) for name in keys.schema.names}
        columns[HASH] = pa.array(key_hashes(keys))
        made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Prepared(conformed(made, self.schema))


def grouped_table(node: TableAggregate, sides: DataFrame, name: str) -> tuple[GroupOperator, DataFrame, WeighRows]:
    """`sides` are the rows that are no longer and those that are, distinguished by `_side`."""
    read = _read(node, sides)
    inputs = [column.alias(one) for one, column in read.columns.items()]
    work = Grouped(read.key, read.specs)
    frame = sides.select(*map(quoted, node.key), *inputs, SIDE)
    return GroupOperator(name, work), frame, WeighRows(work.inner_key, work.given)


def batch_groups(node: TableAggregate, rows: DataFrame) -> DataFrame:
    """The same as one query over all rows."""
    read = _read(node, rows)
    columns = [column for spec in read.specs for column in _reference(spec)]
    grouped = read.inputs.groupBy(*map(quoted, node.key))
    return grouped.agg(*columns) if columns else read.inputs.select(*map(quoted, node.key)).distinct()


def _read(node: TableAggregate, rows: DataFrame) -> Aggregates:
    read = read_aggregates(node, placed(rows))
    if unhashed := [field.name for field in read.key if not can_hash(field.type)]:
        raise InvalidDeclaration(
            f"by at {node.place}: column {unhashed[0]} has no order and no hash, as it is or has a map",
            "Group by other columns.",
        )
    read = replace(read, specs=tuple(map(_nullable, read.specs)))
    for spec in read.specs:
        if (refusal := held_of(spec).refusal(spec)) is not None:
            raise InvalidDeclaration(f"agg at {node.place}: {refusal.args[0]}", refusal.hint)
    return read


def _nullable(spec: Aggregate) -> Aggregate:
    """Values of the state and of a batch stand side by side."""
    return spec if spec.type is None else replace(spec, type=nullable(spec.type))


def _reference(spec: Aggregate) -> list[Column]:
    held = held_of(spec)
    return reference_columns(spec, held.reference(spec), held.tolerance(spec))
