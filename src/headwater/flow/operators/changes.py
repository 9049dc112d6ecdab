"""Changes of a keyed table, as sinks take them (pure).

    _op      c created, u updated, d deleted
    ...      the columns of the key
    ...      the columns of the value after the change; null for d
    _before  struct of the columns of the value before it; null for c

Keys whose values are the same as before are left out.
"""

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.merging import changed
from headwater.flow.state.runs.equality import Mask

OPERATION = "_op"
BEFORE = "_before"
OPERATIONS = pa.array(["c", "u", "d"])


def change_schema(key: pa.Schema, values: pa.Schema) -> pa.Schema:
    before = pa.field(BEFORE, pa.struct([pa.field(field.name, field.type) for field in values]))
    named = [pa.field(field.name, field.type) for field in (*key, *values)]
    return pa.schema([pa.field(OPERATION, pa.string()), *named, before])


def merge_changes(
    keys: pa.RecordBatch, existed: Mask, before: pa.RecordBatch, exists: Mask, after: pa.RecordBatch
) -> pa.RecordBatch:
    """What changed for these keys; a key that was and is not there, or has the same values as before, says nothing."""
    different = (existed != exists) | (existed & exists & changed(before, after))
    rows = np.flatnonzero(different)
    was, is_ = existed[rows], exists[rows]
    operation = OPERATIONS.take(pa.array(np.where(was, np.where(is_, 1, 2), 0)))
    whole = len(rows) == len(different)
    then = before if whole else before.take(rows)
    now = after if whole and is_.all() else after.take(pa.array(rows, mask=~is_))
    structs = _structs(then, was)
    keys = keys if whole or not keys.num_columns else keys.take(rows)
    columns = [operation, *keys.columns, *now.columns, structs]
    return pa.RecordBatch.from_arrays(columns, schema=change_schema(keys.schema, after.schema))


def _structs(rows: pa.RecordBatch, there: Mask) -> pa.StructArray:
    fields = [pa.field(field.name, field.type) for field in rows.schema]
    if not fields:  # a table of nothing but its key
        bits = pa.py_buffer(np.packbits(there, bitorder="little"))
        return pa.Array.from_buffers(pa.struct([]), len(there), [bits])
    return pa.StructArray.from_arrays(list(rows.columns), fields=fields, mask=pa.array(~there))
