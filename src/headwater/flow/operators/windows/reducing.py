"""Fold columns of groups at once, where an aggregate is a sum or an extreme of plain numbers (compiled, pure).

Rows of a group lie side by side. What comes of them is what merging them one by one gives (folding.py); of sums of
floating-point numbers up to rounding, which depends on nothing but the rows and their order.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operators.aggregates import Aggregate, partials
from headwater.flow.state.equality import Integers, Mask, as_mask

SAFE = 2**62
"""Sums of whole numbers that cannot come to this may be added without looking."""
Numbers = npt.NDArray[np.number]


def reduced_groups(spec: Aggregate, rows: pa.RecordBatch, begins: Integers) -> list[pa.Array] | None:
    """The columns of an aggregate with one row for each group; None if they are not of such a kind.

    `begins` are the places of the first row of each group, beginning with 0.
    """
    columns = [rows.column(part.name) for part in partials(spec)]
    match spec.kind:
        case "count":
            found = [_added(columns[0].fill_null(0), begins)]
        case "sum":
            found = [_added(columns[0], begins)]
        case "avg":
            found = [_added(columns[0], begins), _added(columns[1].fill_null(0), begins)]
        case "min" | "max":
            found = [_extreme(column, begins, smallest=spec.kind == "min") for column in columns]
        case _:
            return None
    return [one for one in found if one is not None] if None not in found else None


def _added(column: pa.Array, begins: Integers) -> pa.Array | None:
    if not pa.types.is_int64(column.type) and not pa.types.is_float64(column.type):
        return None
    # Nothing changes when −0.0 is added, not even the sign of nothing.
    values = _filled(column, 0 if pa.types.is_int64(column.type) else -0.0)
    if pa.types.is_int64(column.type) and not _adds_up(values, begins):
        return None
    with np.errstate(all="ignore"):
        return _where_any(np.add.reduceat(values, begins), column, begins)


def _adds_up(values: Numbers, begins: Integers) -> bool:
    """Whether no sum of whole numbers can be more than fits."""
    most = max(abs(int(values.max())), abs(int(values.min())))
    return most * int(np.diff(begins, append=len(values)).max()) < SAFE


def _extreme(column: pa.Array, begins: Integers, *, smallest: bool) -> pa.Array | None:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        plain = _extreme(column.view(pa.int64() if kind.bit_width == 64 else pa.int32()), begins, smallest=smallest)
        return None if plain is None else plain.view(kind)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        # NaN is above all numbers: `fmin` passes it over, `maximum` does not.
        values = _filled(column, np.nan if smallest else -np.inf)
        found = (np.fmin if smallest else np.maximum).reduceat(values, begins)
    elif pa.types.is_signed_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        values = _filled(column, bounds.max if smallest else bounds.min)
        found = (np.minimum if smallest else np.maximum).reduceat(values, begins)
    else:
        return None
    return _where_any(found, column, begins)


def _filled(column: pa.Array, value: float) -> Numbers:
    """With a value in the place of nulls."""
    filled = pc.fill_null(column, pa.scalar(value, column.type)) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _where_any(values: Numbers, column: pa.Array, begins: Integers) -> pa.Array:
    """Null where all of a group are."""
    if not column.null_count:
        return pa.array(values, column.type)
    nothing: Mask = np.logical_and.reduceat(as_mask(column.is_null()), begins)
    return pa.array(values, column.type, mask=nothing)
