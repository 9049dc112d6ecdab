"""The latest row of each key (pure): a table made of a stream.

Rows have an order: event time, then position, or position alone. Tasks reduce a batch to the newest row of each key
(prepare/newest_rows.py); here it meets the state. A row that is not newer than that changes nothing, so that neither a
batch that is run again nor a straggler does. A row without a value deletes the key; that it was deleted, and when,
stays in the state (`_gone`) until the caller's time to live is over, or an older row would bring the key back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.extremes import chosen
from headwater.flow.operators.ordering import rows_less
from headwater.flow.state.runs.equality import Mask, as_mask

GONE = "_gone"


@dataclass(frozen=True)
class Latest:
    """`order` are the columns that say which of two rows is newer, `values` those of the table beside its key."""

    order: pa.Schema
    values: pa.Schema

    @property
    def state(self) -> pa.Schema:
        """Columns kept for a key. The order's names are the state's own: a table may have its time as a value too."""
        order = [pa.field(f"_order_{field.name}", field.type) for field in self.order]
        values = [pa.field(field.name, field.type) for field in self.values]
        return pa.schema([*order, *values, pa.field(GONE, pa.bool_())])

    @property
    def order_names(self) -> list[str]:
        return [f"_order_{name}" for name in self.order.names]


class Merged(NamedTuple):
    """What the newest rows make of a shard: only rows of `newer` are to be written."""

    newer: Mask
    state: pa.RecordBatch
    existed: Mask
    exists: Mask


def merge_latest(spec: Latest, incoming: pa.RecordBatch, mask: Mask, old: pa.RecordBatch) -> Merged:
    """`incoming` has the columns of the state, one row for each key; rows of `old` stand beside them."""
    new_order, old_order = (_columns(rows, spec.order_names) for rows in (incoming, old))
    newer = ~mask | rows_less(old_order, new_order, incoming.num_rows)
    columns = [chosen(newer, incoming.column(name), old.column(name)) for name in spec.state.names]
    state = pa.RecordBatch.from_arrays(columns, schema=spec.state)
    existed = mask & ~_gone(old)
    exists = np.where(newer, ~_gone(incoming), existed)
    return Merged(newer, state, existed, exists)


def _columns(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    return [rows.column(name) for name in names]


def _gone(rows: pa.RecordBatch) -> Mask:
    return as_mask(rows.column(GONE).fill_null(False))
