"""Decimals and rounding as Spark has them (pure): half up, which is away from zero, and an error where digits lack."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing, first_errors
from headwater.flow.expressions.functions.arithmetic import BITS, whole_divided
from headwater.flow.expressions.tree import Expression

QUOTIENT_SCALE = 39
"""Spark divides to so many digits behind the point before it rounds to those of the result."""
PRODUCT_DIGITS = 38
FACTOR_DIGITS = 37
"""Of each factor of a product that decimals of 256 bits have room for."""
WIDE = {"add": pc.add, "subtract": pc.subtract, "multiply": pc.multiply}
MODES = {"round": "half_towards_infinity", "bround": "half_to_even"}
EXACTLY = Context(prec=200)
Calculation = Callable[[int, int], int | None]


def unscaled(values: pa.Array) -> list[int | None]:
    """Decimals as whole numbers of their last digit."""
    scale = values.type.scale
    return [None if one is None else int(one.scaleb(scale, EXACTLY)) for one in values.to_pylist()]


def scaled(numbers: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    decimals = [None if one is None else Decimal(one).scaleb(-kind.scale, EXACTLY) for one in numbers]
    return pa.array(decimals, kind)


def half_up(number: int, by: int) -> int:
    """A whole number divided by another, rounded.

    >>> half_up(25, 10), half_up(-25, 10), half_up(24, 10)
    (3, -3, 2)
    """
    rounded = (2 * abs(number) + abs(by)) // (2 * abs(by))
    return rounded if (number < 0) == (by < 0) else -rounded


def half_even(number: int, by: int) -> int:
    whole, rest = divmod(abs(number), by)
    whole += 2 * rest > by or (2 * rest == by and whole % 2 == 1)
    return whole if number >= 0 else -whole


def rescaled(number: int, scale: int, to: int) -> int:
    return number * 10 ** (to - scale) if to >= scale else half_up(number, 10 ** (scale - to))


def fitted(numbers: Sequence[int | None], kind: pa.DataType) -> Evaluated:
    """Unscaled numbers as decimals; those with too many digits are errors of their rows."""
    limit = 10**kind.precision
    good = [one if one is not None and abs(one) < limit else None for one in numbers]
    large = pa.array([one is not None and abs(one) >= limit for one in numbers])
    return Evaluated(scaled(good, kind), failing(large, f"a result does not fit into {kind}", len(large)))


def calculated(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    """A sum, difference or product that has more digits than there is room for: it is rounded to those of its type."""
    left, right = as_array(one, rows), as_array(other, rows)
    name = node.kind.removesuffix("_decimal")
    try:
        wide = WIDE[name](*(each.cast(pa.decimal256(*_room(each.type))) for each in (left, right)))
        if name != "multiply" or _fits(wide):
            rounded = pc.round(wide, node.type.scale, MODES["round"]) if wide.type.scale > node.type.scale else wide
            return Evaluated(rounded.cast(node.type))
    except pa.ArrowInvalid:  # a row outgrows its type, or 76 digits are too few
        pass
    return _calculated_row_by_row(name, node.type, left, right)


def _room(kind: pa.DataType) -> tuple[int, int]:
    return min(kind.precision, FACTOR_DIGITS), kind.scale


def _fits(product: pa.Array) -> bool:
    """Whether Spark keeps all digits of products: it rounds those of more than 38 before it looks at their type."""
    if not (bounds := pc.min_max(product).as_py()) or bounds["max"] is None:
        return True
    largest = max(abs(bounds["min"]), abs(bounds["max"]))
    return bool(largest.scaleb(product.type.scale, EXACTLY) < 10**PRODUCT_DIGITS)


def _calculated_row_by_row(name: str, kind: pa.DataType, left: pa.Array, right: pa.Array) -> Evaluated:
    scales, found = (left.type.scale, right.type.scale), list[int | None]()
    for one, other in zip(unscaled(left), unscaled(right), strict=True):
        if one is None or other is None:
            found.append(None)
        elif name == "multiply":
            number, scale = _shortened(one * other, sum(scales))
            found.append(rescaled(number, scale, kind.scale))
        else:
            most = max(scales)
            ours, theirs = rescaled(one, scales[0], most), rescaled(other, scales[1], most)
            found.append(rescaled(ours + theirs if name == "add" else ours - theirs, most, kind.scale))
    return fitted(found, kind)


def _shortened(number: int, scale: int) -> tuple[int, int]:
    """A product as Spark keeps it: with at most 38 digits."""
    more = len(str(abs(number))) - PRODUCT_DIGITS
    return (half_up(number, 10**more), scale - more) if more > 0 else (number, scale)


def divided(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    """A quotient, or what is left of it: with the sign of the dividend, or (`positive`) never below zero."""
    left, right = as_array(one, rows), as_array(other, rows)
    calculate = _quotient(node, left.type.scale, right.type.scale) if node.kind == "divide_decimal" else _rest(node)
    ours, theirs = unscaled(left), unscaled(right)
    if node.kind != "divide_decimal":
        common = max(left.type.scale, right.type.scale)
        ours = [None if number is None else number * 10 ** (common - left.type.scale) for number in ours]
        theirs = [None if number is None else number * 10 ** (common - right.type.scale) for number in theirs]
    found = [
        None if number is None or not by else calculate(number, by) for number, by in zip(ours, theirs, strict=True)
    ]
    zero = pa.array([number is not None and by == 0 for number, by in zip(ours, theirs, strict=True)])
    result = fitted(found, node.type)
    return Evaluated(result.values, first_errors([failing(zero, "division by zero", rows), result.errors]))


def _quotient(node: Expression, scale: int, by_scale: int) -> Calculation:
    shift = 10 ** (QUOTIENT_SCALE - scale + by_scale)
    return lambda number, by: rescaled(half_up(number * shift, by), QUOTIENT_SCALE, node.type.scale)


def _rest(node: Expression) -> Calculation:
    def rest(number: int, by: int) -> int:
        left = number - by * whole_divided(number, by)
        if node.option("positive") and left < 0:
            left += by
            left -= by * whole_divided(left, by)
        return left

    return rest


def rounded(node: Expression, rows: int, value: Values) -> Evaluated:
    """round and bround of decimals and whole numbers, to a literal number of digits."""
    values, digits = as_array(value, rows), node.option("digits")
    if pa.types.is_decimal(values.type):
        wider = values.cast(pa.decimal128(values.type.precision + 1, values.type.scale))
        return Evaluated(pc.round(wider, digits, MODES[node.kind]).cast(node.type))
    if digits >= 0:
        return Evaluated(values)
    by, near = 10**-digits, half_up if node.kind == "round" else half_even
    limit = 1 << (BITS[node.type] - 1)
    found = [None if one is None else near(one, by) * by for one in values.to_pylist()]
    fits = [one is not None and -limit <= one < limit for one in found]
    large = pa.array([one is not None and not fit for one, fit in zip(found, fits, strict=True)])
    good = [one if fit else None for one, fit in zip(found, fits, strict=True)]
    return Evaluated(pa.array(good, node.type), failing(large, f"a result does not fit into {node.type}", rows))


def rounded_whole(node: Expression, rows: int, value: Values) -> Evaluated:
    """floor and ceil of decimals, which are decimals without a scale."""
    values = as_array(value, rows)
    wider = values.cast(pa.decimal128(values.type.precision + 1, values.type.scale))
    return Evaluated((pc.floor if node.kind == "floor_decimal" else pc.ceil)(wider).cast(node.type))


def signed(node: Expression, rows: int, value: Values) -> Evaluated:
    """signum of a double: a zero keeps its sign."""
    values = as_array(value, rows)
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        found = np.where((numbers == 0) | np.isnan(numbers), numbers, np.copysign(1.0, numbers))
    return Evaluated(pa.array(found, pa.float64(), mask=pc.is_null(values).to_numpy(zero_copy_only=False)))


def nearest_whole(node: Expression, rows: int, value: Values) -> Evaluated:
    """rint: the nearest whole number, the even one of two."""
    return Evaluated(pc.round(value, 0, "half_to_even"))
