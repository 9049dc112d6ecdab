"""Values of an expression for the rows of a batch, and the rows for which it has none because it failed (pure).

Spark raises for the whole batch where an ANSI expression fails (a cast of "abc" to int, a division by zero). Here a
failure belongs to its row: `errors` holds a sentence for each row that failed, null for the others, or is None where no
row did, which is the usual case and costs nothing.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Values = Any
"""A column of Arrow's, or a scalar, which stands for the same value in every row."""


class Evaluated(NamedTuple):
    values: Values
    errors: pa.Array | None = None


def first_errors(several: Iterable[pa.Array | None]) -> pa.Array | None:
    """For each row the first error there is."""
    known = [one for one in several if one is not None]
    return known[0] if len(known) == 1 else pc.coalesce(*known) if known else None


def only_where(condition: pa.Array | pa.Scalar, errors: pa.Array | None) -> pa.Array | None:
    """The errors of rows in which the expression is needed at all; a null condition counts as false."""
    if errors is None:
        return None
    needed = pc.fill_null(condition, False)
    kept = pc.if_else(needed, errors, pa.scalar(None, pa.string()))
    return kept if kept.null_count < len(kept) else None


def failing(mask: pa.Array | pa.Scalar, reason: str, rows: int) -> pa.Array | None:
    """One sentence for all rows of the mask; None if there are none."""
    if isinstance(mask, pa.Scalar):
        return pa.repeat(pa.scalar(reason), rows) if mask.as_py() else None
    mask = pc.fill_null(mask, False)
    if not pc.any(mask).as_py():
        return None
    return pc.if_else(mask, pa.scalar(reason), pa.scalar(None, pa.string()))


def failing_values(mask: pa.Array, values: pa.Array, reason: str) -> pa.Array | None:
    """A sentence for each row of the mask, with the row's value in the place of {}."""
    mask = pc.fill_null(mask, False)
    if not pc.any(mask).as_py():
        return None
    before, after = reason.split("{}")
    shown = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, 100)
    said = pc.binary_join_element_wise(pa.scalar(before), shown, pa.scalar(after), pa.scalar(""))
    return pc.if_else(mask, said, pa.scalar(None, pa.string()))


def of_type(values: Values, kind: pa.DataType) -> Values:
    """Arrays and structs of which Spark knows that some part is never null are of a type of their own to Arrow."""
    return values.cast(kind) if pa.types.is_nested(kind) and not values.type.equals(kind) else values


def as_array(values: Values, rows: int) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values
