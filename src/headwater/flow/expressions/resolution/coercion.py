"""Spark's ANSI rules for the types of expressions, as far as they are certain (pure)."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.flow.expressions.evaluation import evaluate
from headwater.flow.expressions.functions.casts import cast_kind
from headwater.flow.expressions.tree import COLUMN, LITERAL, Expression, Untranslatable, literal

NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""In the order in which one is widened to the next."""
DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Of the decimal that holds every value of the type."""
DECIMAL_DIGITS, LEAST_SCALE = 38, 6
UTC = pa.timestamp("us", "UTC")
FOLDED = "(a constant)"
"""The text of a literal that was not written as one: some of Spark's rules distinguish them."""
MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(Z?))?")


def is_number(kind: pa.DataType) -> bool:
    return kind in NUMBERS or pa.types.is_decimal(kind)


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type that values of several are compared or chosen in. Untranslatable where it is Spark's to say."""
    found = kinds[0]
    for kind in kinds[1:]:
        found = _common(found, kind)
    return found


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if one in NUMBERS and other in NUMBERS:
        wider = NUMBERS[max(NUMBERS.index(one), NUMBERS.index(other))]
        return pa.float64() if pa.types.is_float32(wider) else wider
    if is_number(one) and is_number(other):
        if pa.types.is_floating(one) or pa.types.is_floating(other):
            return pa.float64()
        return wider_decimal(as_decimal(one), as_decimal(other))
    if {one, other} == {pa.date32(), UTC}:
        return UTC
    raise Untranslatable(f"{one} and {other} together")


def as_decimal(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(DIGITS[kind], 0) if kind in DIGITS else kind


def wider_decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    more = max(precision - DECIMAL_DIGITS, 0)  # digits before the point stay
    return pa.decimal128(precision - more, max(scale - more, 0))


def decimal_of(node: Expression) -> Expression:
    """A whole number as the decimal that Spark makes of it beside another decimal: a literal has as few digits as it
    needs."""
    if pa.types.is_decimal(node.type):
        return node
    if node.kind == LITERAL and node.text != FOLDED and (value := node.option("value").as_py()) is not None:
        return cast_to(node, pa.decimal128(len(str(abs(value))), 0))
    return cast_to(node, as_decimal(node.type))


def decimal_result(kind: str, inputs: tuple[Expression, ...]) -> pa.DataType | None:
    """What Arrow makes of two decimals; None if they are none, or it has no room for it."""
    one, other = (each.type for each in inputs)
    if not (pa.types.is_decimal(one) and pa.types.is_decimal(other)):
        return None
    precision, scale = _digits_of(kind, one, other)
    return pa.decimal128(precision, scale) if precision <= DECIMAL_DIGITS else None


def rounded_result(kind: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """What Spark makes of two decimals where all digits of the result have no room.

    >>> rounded_result("multiply", pa.decimal128(32, 4), pa.decimal128(16, 2))
    Decimal128Type(decimal128(38, 6))
    """
    return _adjusted(*_digits_of(kind, one, other))


def _digits_of(kind: str, one: pa.DataType, other: pa.DataType) -> tuple[int, int]:
    if kind == "multiply":
        return one.precision + other.precision + 1, one.scale + other.scale
    scale = max(one.scale, other.scale)
    return max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale


def quotient_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    scale = max(LEAST_SCALE, one.scale + other.precision + 1)
    return _adjusted(one.precision - one.scale + other.scale + scale, scale)


def remainder_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    scale = max(one.scale, other.scale)
    return _adjusted(min(one.precision - one.scale, other.precision - other.scale) + scale, scale)


def _adjusted(precision: int, scale: int) -> pa.DataType:
    """As many digits after the point as there is room for, but six if there were so many."""
    if precision <= DECIMAL_DIGITS:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(DECIMAL_DIGITS, max(DECIMAL_DIGITS - whole, min(scale, LEAST_SCALE)))


def cast_to(node: Expression, kind: pa.DataType, *, lenient: bool = False) -> Expression:
    """The cast that Spark puts in where a type is not the one that is wanted."""
    if node.type.equals(kind):
        return node
    return cast_as_written(node, kind, lenient=lenient)


def cast_as_written(node: Expression, kind: pa.DataType, *, lenient: bool = False) -> Expression:
    if node.kind == LITERAL and pa.types.is_string(node.type) and kind in (UTC, pa.date32()):
        return _moment(node.option("value").as_py(), kind)
    made = Expression(
        "cast", kind, (node,), (("cast", cast_kind(node.type, kind)), ("lenient", lenient)), f"cast({node.text})"
    )
    return folded(made)


def _moment(text: str | None, kind: pa.DataType) -> Expression:
    """A literal of a time or a date, of texts that can be read in one way only."""
    found = MOMENT.fullmatch(text or "")
    if found is None or (pa.types.is_date(kind) and found[2]):
        raise Untranslatable(f"'{text}' as {kind}")
    try:
        moment = dt.datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00:00'}+00:00")
    except ValueError as error:
        raise Untranslatable(f"'{text}' as {kind}") from error
    return literal(moment.date() if pa.types.is_date(kind) else moment, kind)


def folded(node: Expression) -> Expression:
    """An expression of literals alone is a literal; one that fails is left for Spark to refuse."""
    if pa.types.is_nested(node.type) or not _constant(node):
        return node
    found = evaluate(node, {}, 1)
    if found.errors is not None:
        raise Untranslatable(f"{node.text} fails")
    value = found.values if isinstance(found.values, pa.Scalar) else found.values[0]
    return replace(literal(value.as_py(), node.type), text=FOLDED)


def _constant(node: Expression) -> bool:
    return node.kind != COLUMN and all(_constant(one) for one in node.inputs)
