"""Both sides of the changes of a table, each in the shard of its group (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.formats.schema import nearest, quoted
from headwater.flow.operators.joins.emission import AFTER_SIDE, SIDE
from headwater.flow.operators.joins.tables import AFTER, ROW, Side, incoming
from headwater.flow.operators.spark_hashes import can_hash, shard_hashes, xxhash64
from headwater.flow.prepare.reduced_rows import normal_keys
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed


@dataclass(frozen=True)
class PrepareGrouped:
    """Null is a group of its own, as any other value is; without columns to group by, all rows are one."""

    side: Side

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type) for field in incoming(self.side)])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        own = conformed(rows, self.side.columns)
        groups, identity = (own.select(list(names)) for names in (self.side.on, self.side.key))
        columns = {name: own.column(name) for name in own.schema.names}
        columns[HASH] = pa.array(group_hashes(groups, rows.num_rows))
        columns[ROW] = pa.array(xxhash64(identity.columns, rows.num_rows) >> 1)  # halved: within the bounds of searches
        columns[AFTER] = pc.equal(rows.column(SIDE), AFTER_SIDE)
        made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Prepared(conformed(made, self.schema))


def group_hashes(groups: pa.RecordBatch, count: int) -> np.ndarray:
    if not groups.num_columns:
        return np.zeros(count, np.int64)
    return shard_hashes(normal_keys(groups, groups.schema).columns, count)


def columns_of(frame: DataFrame) -> pa.Schema:
    """Those of a table that the user knows."""
    plain = arrow_schema(frame.select(*map(quoted, visible(frame))).schema)
    return pa.schema([pa.field(field.name, field.type) for field in plain])


def check_columns(
    what: str, names: Sequence[str], columns: pa.Schema, *, grouped: Sequence[str] = (), of_key: bool = False
) -> None:
    """InvalidDeclaration if a column is not there, or rows cannot be grouped by it."""
    for name in names:
        if name not in columns.names:
            lost = f"{what} comes after a step that drops {name}, which is part of its table's key"
            said = lost if of_key else f"{what}: there is no column {name}"
            raise InvalidDeclaration(said, "Keep it." if of_key else nearest(name, columns.names))
        if (of_key or name in grouped) and not can_hash(columns.field(name).type):
            raise InvalidDeclaration(
                f"{what}: column {name} has no order and no hash, as it is or has a map", "Group by other columns."
            )
