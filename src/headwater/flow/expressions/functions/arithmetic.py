"""Arithmetic as Spark does it under ANSI: what does not fit, and a division by zero, is an error of its row (pure)."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing, failing_values, first_errors
from headwater.flow.expressions.tree import Expression

BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "negate": "-", "abs": "abs", "divide_whole": "div"}


def whole_divided(one: int, other: int) -> int:
    """Division of whole numbers, towards zero."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


EXACT: dict[str, Callable[..., int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negate": operator.neg, "abs": abs,
    "divide_whole": whole_divided,
}  # fmt: skip
CHECKED = {
    "add": pc.add_checked, "subtract": pc.subtract_checked, "multiply": pc.multiply_checked,
    "negate": pc.negate_checked, "abs": pc.abs_checked, "divide_whole": pc.divide_checked,
}  # fmt: skip
PLAIN = {
    "add": pc.add, "subtract": pc.subtract, "multiply": pc.multiply, "negate": pc.negate, "abs": pc.abs,
}  # fmt: skip


def calculated(node: Expression, rows: int, *given: Values) -> Evaluated:
    """Sum, difference, product, negation, absolute value."""
    if not pa.types.is_integer(node.type):
        return Evaluated(PLAIN[node.kind](*given))
    try:
        return Evaluated(CHECKED[node.kind](*given))
    except pa.ArrowInvalid:
        return _row_by_row(node, rows, given)


def _row_by_row(node: Expression, rows: int, given: tuple[Values, ...]) -> Evaluated:
    """Of a batch in which some row outgrows its type."""
    limit = 1 << (BITS[node.type] - 1)
    values: list[int | None] = []
    errors: list[str | None] = []
    for several in zip(*(as_array(one, rows).to_pylist() for one in given), strict=True):
        result = None if None in several else EXACT[node.kind](*several)
        fits = result is None or -limit <= result < limit
        values.append(result if fits else None)
        errors.append(None if fits else _overflow(node, several))
    return Evaluated(pa.array(values, node.type), pa.array(errors, pa.string()))


def _overflow(node: Expression, several: tuple[Any, ...]) -> str:
    shown = f" {SIGNS[node.kind]} ".join(map(str, several)) if len(several) > 1 else f"{node.kind} of {several[0]}"
    return f"{shown} does not fit into {node.type}"


def divided(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    zero = pc.equal(other, pa.scalar(0.0, pa.float64()))
    errors = failing(pc.and_(zero, pc.is_valid(one)), "division by zero", rows)
    return Evaluated(pc.divide(one, other), errors)


def divided_whole(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    errors, other = _refuse_zero(one, other, rows)
    result = calculated(node, rows, one, other)
    return Evaluated(result.values, first_errors([errors, result.errors]))


def remainder(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    """With the sign of the dividend, as in Java; `positive`: never below zero (pmod)."""
    errors, other = _refuse_zero(one, other, rows)
    left, right = as_array(one, rows), as_array(other, rows)
    there = pc.and_(pc.is_valid(left), pc.is_valid(right)).to_numpy(zero_copy_only=False)
    ours, theirs = (_numbers(column, fill) for column, fill in ((left, 0), (right, 1)))
    rest = _rest(ours, theirs)
    if node.option("positive"):
        rest = np.where(rest < 0, _rest(rest + theirs, theirs), rest)
    return Evaluated(pa.array(rest, node.type, mask=~there), errors)


def _rest(ours: Any, theirs: Any) -> Any:
    if ours.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.fmod(ours, theirs)
    return np.where(theirs == -1, 0, np.fmod(ours, np.where(theirs == -1, 1, theirs))).astype(ours.dtype)


def _numbers(column: pa.Array, fill: int) -> Any:
    return pc.fill_null(column, pa.scalar(fill, column.type)).to_numpy(zero_copy_only=False)


def _refuse_zero(one: Values, other: Values, rows: int) -> tuple[pa.Array | None, Values]:
    """The error of rows that divide by zero, and divisors that can be divided by."""
    zero = pc.equal(other, pa.scalar(0, other.type))
    errors = failing(pc.and_(zero, pc.is_valid(one)), "division by zero", rows)
    return errors, other if errors is None else pc.if_else(zero, pa.scalar(None, other.type), other)


def rounded_whole(node: Expression, rows: int, value: Values) -> Evaluated:
    """floor and ceil of a double, which are longs."""
    column = as_array(value, rows)
    if pa.types.is_integer(column.type):
        return Evaluated(column.cast(pa.int64()))
    numbers = _numbers(column, 0)
    whole = np.floor(numbers) if node.kind == "floor" else np.ceil(numbers)
    inside = np.isnan(whole) | ((whole < 2.0**63) & (whole >= -(2.0**63)))  # NaN is 0
    errors = failing_values(pa.array(~inside), column, "{} does not fit into int64")
    return Evaluated(pa.array(to_long(whole), pa.int64(), mask=~(_there(column) & inside)), errors)


def to_long(numbers: Any) -> Any:
    """As Java turns a double into a long: NaN is 0, what is too large is the largest."""
    safe = np.nan_to_num(numbers, nan=0.0, posinf=2.0**63, neginf=-(2.0**63))
    large, small = safe >= 2.0**63, safe <= -(2.0**63)
    inside = np.where(large | small, 0.0, safe).astype(np.int64)
    return np.where(large, np.iinfo(np.int64).max, np.where(small, np.iinfo(np.int64).min, inside))


def _there(column: pa.Array) -> Any:
    return pc.is_valid(column).to_numpy(zero_copy_only=False)


def square_root(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.sqrt(value))
