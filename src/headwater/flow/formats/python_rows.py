"""Rows that a library hands over as Python values, to columns: for formats that have no vectorised reader.

Arrow is lenient where a schema should be strict (it takes a number for a timestamp), so the Python types are looked at
first. A column in which every value fits costs one call; only a column with a misfit is gone through value by value.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.flow.formats.decoding import Decoded, shortened
from headwater.flow.formats.schema import Field, Schema, type_name

NONE = type(None)
MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)

Row = Mapping[str, Any] | str
"""A decoded row, or the reason why there is none."""


def decoded_rows(schema: Schema, rows: Sequence[Row]) -> Decoded:
    reasons = {offset: row for offset, row in enumerate(rows) if isinstance(row, str)}
    mappings: list[Mapping[str, Any]] = [{} if isinstance(row, str) else row for row in rows]
    arrays = [_column(field, [row.get(field.name) for row in mappings], reasons) for field in schema.fields]
    bad = np.array(sorted(reasons), dtype=np.int64)
    if len(bad):
        good = np.ones(len(rows), dtype=np.bool_)
        good[bad] = False
        arrays = [array.filter(pa.array(good)).take(_places(good)) for array in arrays]
    columns = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    return Decoded(columns, bad, [reasons[int(offset)] for offset in bad])


def _places(good: "np.ndarray[Any, np.dtype[np.bool_]]") -> pa.Array:
    """Where each row lies among the good ones; null for a bad one."""
    return pa.array(np.cumsum(good) - 1, mask=~good)


def _column(field: Field, values: list[Any], reasons: dict[int, str]) -> pa.Array:
    """The column, with nulls for misfits; their reasons are added, unless the row is bad already."""
    if not field.nullable:
        for offset, value in enumerate(values):
            if value is None:
                reasons.setdefault(offset, f"{field.name}: null, and the schema says NOT NULL")
    if set(map(type, values)) <= {NONE, *_python_types(field.type)}:
        # As they are first, because few types have anything to arrange and doing so costs more than all the rest.
        for arranged in (False, True):
            try:
                taken = [_arranged(value, field.type) for value in values] if arranged else values
                return pa.array(taken, type=field.type)
            except MISFITS:
                continue
    fitting = []
    for offset, value in enumerate(values):
        fits = value is None or _fits(value, field.type)
        fitting.append(_arranged(value, field.type) if fits else None)
        if not fits:
            shown = shortened(repr(value) if isinstance(value, str | bytes) else str(value))
            reasons.setdefault(offset, f"{field.name}: {shown} does not fit {type_name(field.type)}")
    return pa.array(fitting, type=field.type)


def _fits(value: Any, kind: pa.DataType) -> bool:
    if type(value) not in _python_types(kind):
        return False
    try:
        pa.array([_arranged(value, kind)], type=kind)
    except MISFITS:
        return False
    return True


def _python_types(kind: pa.DataType) -> tuple[type, ...]:
    checks: list[tuple[Any, tuple[type, ...]]] = [
        (pa.types.is_boolean, (bool,)),
        (pa.types.is_integer, (int,)),
        (pa.types.is_floating, (float, int)),
        (pa.types.is_decimal, (Decimal, int)),
        (pa.types.is_string, (str, uuid.UUID)),
        (pa.types.is_binary, (bytes,)),
        (pa.types.is_timestamp, (datetime,)),
        (pa.types.is_date, (date,)),
        (pa.types.is_list, (list, tuple)),
    ]
    return next((types for check, types in checks if check(kind)), (dict,))


def _arranged(value: Any, kind: pa.DataType) -> Any:
    """As pa.array wants it: maps as pairs, identifiers as text."""
    if value is None or not (pa.types.is_nested(kind) or pa.types.is_string(kind)):
        return value
    if pa.types.is_map(kind):
        pairs = value.items()
        return [(_arranged(key, kind.key_type), _arranged(item, kind.item_type)) for key, item in pairs]
    if pa.types.is_list(kind):
        return [_arranged(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _arranged(value.get(field.name), field.type) for field in kind.fields}
    return str(value) if isinstance(value, uuid.UUID) else value
