"""Rows that go to the shard of their key as they are: all of a task, or the newest of each key (pure)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operate.reports import ROWS
from headwater.flow.operators.joins.events import OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.operators.latest import GONE, Latest
from headwater.flow.operators.ordering import sorted_places
from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.prepare.reduced_rows import MOMENT, normal_keys
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.rows.row_batch import DELETED
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import conformed

ORDERED_BY = {"_at_time": TIME, "_at_source": SOURCE, "_at_partition": PARTITION, "_at_offset": OFFSET}
"""Column of the order of a table (job_operators.py), and the column of a row that it is made of."""


@dataclass(frozen=True)
class NewestByKey:
    """Keeps the newest row of each key, by the order of the table."""

    key: pa.Schema
    work: Latest

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(HASH, pa.int64()), *self.key, *self.work.state, (ROWS, pa.int64())])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        keys = normal_keys(rows.select(self.key.names), self.key)
        columns = {name: rows.column(name) for name in rows.schema.names}
        columns |= {name: keys.column(name) for name in keys.schema.names}
        for name in self.work.order.names:
            own = rows.column(ORDERED_BY.get(name, name))
            columns[f"_order_{name}"] = own.cast(MOMENT) if name == "_at_time" else own
        columns[GONE] = columns.get(DELETED, pa.array(np.zeros(rows.num_rows, np.bool_)))
        columns[HASH] = pa.array(shard_hashes(keys.columns, rows.num_rows))
        columns[ROWS] = pa.array(np.ones(rows.num_rows, np.int64))
        given = conformed(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), self.schema)
        return Prepared(newest_of(self.work, self.key, given))


def newest_of(work: Latest, key: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The last row of each key by the table's order; `_rows`, where rows have it, says how many there were."""
    own, hashes = rows.select(key.names), rows.column(HASH).to_numpy()
    order, firsts = grouped([hashes], own, within=_ranks([rows.column(name) for name in work.order_names]))
    if firsts.all():
        return rows
    begins = np.flatnonzero(firsts)
    lasts = np.append(begins[1:] - 1, len(order) - 1)
    newest = rows.take(pa.array(order[lasts]))
    if ROWS not in rows.schema.names:
        return newest
    counts = np.add.reduceat(rows.column(ROWS).to_numpy()[order], begins)
    return newest.set_column(newest.schema.get_field_index(ROWS), ROWS, pa.array(counts))


def _ranks(order: list[pa.Array]) -> list[Integers]:
    """Integers that sort as the columns do."""
    if not any(column.null_count for column in order):
        return [column.cast(pa.int64()).to_numpy() for column in order]
    ranks = np.empty(len(order[0]), np.int64)
    ranks[sorted_places(order)] = np.arange(len(ranks))
    return [ranks]


@dataclass(frozen=True)
class HashByKey:
    """`columns` are those that shards want; without a key all rows belong to the first shard."""

    key: tuple[str, ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        plain = [pa.field(one.name, one.type) for one in self.columns]
        return pa.schema([pa.field(HASH, pa.int64()), *plain])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        keys = [rows.column(name) for name in self.key]
        hashes = shard_hashes(keys, rows.num_rows) if keys else np.zeros(rows.num_rows, np.int64)
        return Prepared(conformed(rows.append_column(HASH, pa.array(hashes)), self.schema))
