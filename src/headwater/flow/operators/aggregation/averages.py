"""Sums and averages of every type of number, as Spark has them (pure)."""

import pyarrow as pa
import pyarrow.compute as pc


def sum_type(kind: pa.DataType) -> pa.DataType:
    """What Spark's sum of a column is of.

    >>> sum_type(pa.decimal128(12, 2))
    Decimal128Type(decimal128(22, 2))
    """
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 10, 38), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def average_sum_type(kind: pa.DataType) -> pa.DataType:
    """Sums of 64-bit integers may outgrow them where their average does not; and doubles would round."""
    return pa.decimal128(38, 0) if pa.types.is_int64(kind) else sum_type(kind)


def average_type(kind: pa.DataType) -> pa.DataType:
    """
    >>> average_type(pa.decimal128(12, 2)), average_type(pa.int32())
    (Decimal128Type(decimal128(16, 6)), DataType(double))
    """
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 4, 38), min(kind.scale + 4, 38))
    return pa.float64()


def average(total: pa.Array, count: pa.Array, kind: pa.DataType) -> pa.Array:
    """Null where nothing was counted."""
    nothing = pc.equal(count.fill_null(0), 0)
    divisor = pc.if_else(nothing, pa.scalar(1, pa.int64()), count)
    if not pa.types.is_decimal(kind):
        return pc.divide(total.cast(pa.float64()), divisor.cast(pa.float64()))
    # Spark rounds half up to the scale of the result; numerators are exact in 256 bits.
    scaled = total.cast(pa.decimal256(76 - 19 - 1, kind.scale + 1))
    quotient = pc.divide(scaled, divisor.cast(pa.decimal256(19, 0)))
    return pc.round(quotient, ndigits=kind.scale, round_mode="half_towards_infinity").cast(kind)
