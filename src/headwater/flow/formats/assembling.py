"""Converted columns to what a decoder answers: Arrow for the good rows, a reason for each bad one."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headwater.flow.formats.decoding import Decoded
from headwater.flow.formats.kernels.cells import WRONG
from headwater.flow.formats.kernels.columns import BoolArray, Column, refuse_absent
from headwater.flow.formats.reasons import reason_of
from headwater.flow.formats.schema import Schema


def assemble(schema: Schema, columns: list[Column], present: BoolArray, why_absent: Callable[[int], str]) -> Decoded:
    """Columns as Arrow, and the rows that are absent, or wrong in one of them, with their reasons."""
    good = present.copy()
    for column in columns:
        refuse_absent(column, present)
        good &= column.states != WRONG
    bad = np.flatnonzero(~good)
    reasons = [_reason(schema, columns, int(row)) if present[row] else why_absent(int(row)) for row in bad]
    arrays = [column.array(good if len(bad) else None) for column in columns]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow), bad.astype(np.int64), reasons)


def _reason(schema: Schema, columns: list[Column], row: int) -> str:
    for field, column in zip(schema.fields, columns, strict=True):
        if column.states[row] == WRONG:
            return reason_of(column, row, field.name)
    return "the value does not fit the schema"
