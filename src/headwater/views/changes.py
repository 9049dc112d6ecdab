"""A batch of rows, made ready for a table: aligned to its columns, one row per key, deletes separated. Pure.

Rows of a keyed output carry `_op`: `d` says that the key is deleted; any other, or no `_op` at all, that the row is as
it stands. Where a key comes more than once, its last row counts.
"""

from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.column_types import nested
from headwater.views.json_text import json_text
from headwater.views.shape import Column, Shape

OPERATION = "_op"
DELETE = "d"


class Encode(Protocol):
    def __call__(self, column: Column, values: pa.Array, /) -> pa.Array: ...


class Changes(NamedTuple):
    present: pa.Table  # all columns of the shape, encoded for the store
    deleted: pa.Table  # its key columns
    deleted_keys: pa.Array  # the same as JSON text, for those who watch

    @property
    def empty(self) -> bool:
        return not (self.present.num_rows or len(self.deleted_keys))


def changes_in(shape: Shape, rows: pa.Table, encode: Encode) -> Changes:
    table = pa.table({column.name: encode(column, _plain_column(rows, column)) for column in shape.columns})
    if shape.one_row:
        return _of_one_row(table, rows)
    if not shape.key:
        return Changes(table, table.select([]).slice(0, 0), pa.array([], pa.string()))
    kept = _last_of_each_key(table, shape.key)
    deleted = _deleted(rows)
    if kept is not None:
        table, rows, deleted = table.take(kept), rows.take(kept), deleted.take(kept)
    if not pc.any(deleted).as_py():
        return Changes(table, table.select(shape.key).slice(0, 0), pa.array([], pa.string()))
    gone_rows = rows.filter(deleted)
    keys = [_plain_column(gone_rows, column) for column in shape.key_columns]
    deleted_keys = json_text(pa.StructArray.from_arrays(keys, fields=list(shape.key_type)))
    return Changes(table.filter(pc.invert(deleted)), table.select(shape.key).filter(deleted), deleted_keys)


def _of_one_row(table: pa.Table, rows: pa.Table) -> Changes:
    """What the last change makes of the only row: another, or none."""
    nothing, last = table.select([]).slice(0, 0), max(table.num_rows - 1, 0)
    if table.num_rows and _deleted(rows)[last].as_py():
        return Changes(table.slice(0, 0), nothing, pa.array(["{}"]))
    return Changes(table.slice(last), nothing, pa.array([], pa.string()))


def _plain_column(rows: pa.Table, column: Column) -> pa.Array:
    """A column that is no longer produced is null."""
    if column.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, column.type)
    values = rows.column(column.name)
    return _whole(values if values.type == column.type else values.cast(column.type))


def _whole(values: pa.ChunkedArray) -> pa.Array:
    combined = values.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _deleted(rows: pa.Table) -> pa.Array:
    if OPERATION not in rows.schema.names:
        return pa.array(np.zeros(rows.num_rows, dtype=np.bool_))
    return _whole(pc.fill_null(pc.equal(rows.column(OPERATION), DELETE), False))


def _last_of_each_key(table: pa.Table, key: tuple[str, ...]) -> pa.Array | None:
    """Which rows to keep, in their order; None for all."""
    # Arrow does not group by structs, lists and maps.
    keys = {name: json_text(_whole(table[name])) if nested(table[name].type) else table[name] for name in key}
    indexes = pa.table(keys).append_column("_index", pa.array(np.arange(table.num_rows)))
    last = indexes.group_by(list(key), use_threads=False).aggregate([("_index", "max")]).column("_index_max")
    if len(last) == table.num_rows:
        return None
    return pa.array(np.sort(last.to_numpy()))
