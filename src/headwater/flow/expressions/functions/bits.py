"""Bits of whole numbers, and hashes of values (pure)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array
from headwater.flow.expressions.tree import Expression
from headwater.flow.operators.spark_hashes import murmur3, xxhash64

BITWISE = {
    "bit_and": pc.bit_wise_and, "bit_or": pc.bit_wise_or, "bit_xor": pc.bit_wise_xor, "bit_not": pc.bit_wise_not,
}  # fmt: skip


def bitwise(node: Expression, rows: int, *given: Values) -> Evaluated:
    return Evaluated(BITWISE[node.kind](*given))


def shifted(node: Expression, rows: int, value: Values, by: Values) -> Evaluated:
    """By as many places as the last five or six bits say, as in Java; `shift_right_unsigned` fills with zeros."""
    column, places = as_array(value, rows), as_array(by, rows)
    numbers, width = _numbers(column), node.type.bit_width
    count = (_numbers(places) & (width - 1)).astype(numbers.dtype)
    if node.kind == "shift_left":
        found = numbers << count
    elif node.kind == "shift_right":
        found = numbers >> count
    else:
        unsigned = np.uint32 if width == 32 else np.uint64
        found = (numbers.view(unsigned) >> count.astype(unsigned)).view(numbers.dtype)
    missing = pc.or_(pc.is_null(column), pc.is_null(places)).to_numpy(zero_copy_only=False)
    return Evaluated(pa.array(found, node.type, mask=missing))


def counted(node: Expression, rows: int, value: Values) -> Evaluated:
    """bit_count: of the 64 bits of a long."""
    column = as_array(value, rows)
    wide = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    ones = np.bitwise_count(_numbers(wide.cast(pa.int64())).view(np.uint64)).astype(np.int32)
    return Evaluated(pa.array(ones, pa.int32(), mask=pc.is_null(column).to_numpy(zero_copy_only=False)))


def _numbers(column: pa.Array) -> Any:
    return np.ascontiguousarray(pc.fill_null(column, pa.scalar(0, column.type)).to_numpy(zero_copy_only=False))


def hashed(node: Expression, rows: int, *given: Values) -> Evaluated:
    """Spark's xxhash64, and its hash (Murmur3)."""
    function = xxhash64 if node.kind == "xxhash64" else murmur3
    return Evaluated(pa.array(function([as_array(one, rows) for one in given], rows)).cast(node.type))
