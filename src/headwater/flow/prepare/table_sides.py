"""Both sides of the changes of a table, each in the shard of its group (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.formats.schema import nearest, quoted
from headwater.flow.operators.joins.emission import AFTER_SIDE, SIDE
from headwater.flow.operators.joins.tables import AFTER, ROW, Side, incoming
from headwater.flow.operators.spark_hashes import can_hash, shard_hashes, xxhash64
from headwater.flow.operators.tables.beside import PLACES
from headwater.flow.operators.tables.sets import counted_schema
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.prepare.reduced_rows import normal_keys
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.rows.row_steps import visible
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed


class PrepareSides(Protocol):
    """Makes what shards are given of both sides of changes, which have `_side`."""

    @property
    def schema(self) -> pa.Schema: ...

    def prepare(self, rows: pa.RecordBatch) -> Prepared: ...


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


@dataclass(frozen=True)
class PrepareCounted:
    """Rows that are the same as each other, once, with how much oftener they are there than before."""

    rows: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return counted_schema(self.rows)

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        own = normal_keys(conformed(rows, self.rows), self.rows)
        hashes = shard_hashes(own.columns, rows.num_rows)
        weights = np.where(np.asarray(pc.equal(rows.column(SIDE), AFTER_SIDE)), 1, -1)
        order, firsts = grouped([hashes], own)
        begins = np.flatnonzero(firsts)
        counts = np.add.reduceat(weights[order], begins) if len(begins) else np.empty(0, np.int64)
        heads = order[begins]
        columns = [pa.array(hashes[heads]), *own.take(pa.array(heads)).columns, pa.array(counts, pa.int64())]
        made = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Prepared(made.filter(pa.array(counts != 0)))


@dataclass(frozen=True)
class PrepareEverywhere:
    """A copy of each row for every shard."""

    side: Side

    @property
    def schema(self) -> pa.Schema:
        return PrepareGrouped(self.side).schema

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        once = PrepareGrouped(self.side).prepare(rows).rows
        copied = once.take(pa.array(np.repeat(np.arange(once.num_rows), PLACES)))
        hashes = pa.array(np.tile(np.arange(PLACES), once.num_rows))
        return Prepared(copied.set_column(copied.schema.get_field_index(HASH), HASH, hashes))


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
