"""How values lie in SQLite, and how they are compared there. Pure.

    integers, booleans      INTEGER                    float, double   REAL; "NaN" is text, which sorts after numbers
    decimal(p,s)            TEXT with all s decimals   string          TEXT
    date, timestamp         TEXT that sorts, UTC       binary          BLOB
    array, map, struct      TEXT, JSON

SQLite has no exact decimals. Text keeps every digit; comparisons and orders take it apart into whole numbers, so that
they are exact too.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.json_text import json_text, plain_text
from headwater.views.query import Condition
from headwater.views.shape import Column, quoted
from headwater.views.values import as_column, as_exact, as_float32, as_utc, from_json_text, from_json_texts, from_text

_EXACT = Context(prec=100)
_PIECE_DIGITS = 18  # as many as surely fit into 64 bits
_DIGITS_MAX = 54


def column_type(column: Column) -> str:
    """BIGINT, not INTEGER: a lone INTEGER key would be another name for SQLite's row number, which is never null."""
    type = column.type
    if pa.types.is_boolean(type) or pa.types.is_integer(type):
        return "BIGINT"
    if pa.types.is_floating(type):
        return "DOUBLE"
    return "BLOB" if pa.types.is_binary(type) else "TEXT"


def encode(column: Column, values: pa.Array) -> pa.Array:
    """A column as one of int64, double, string, binary."""
    type = column.type
    if column.nested:
        return pc.if_else(values.is_valid(), json_text(values), None)
    if pa.types.is_boolean(type) or pa.types.is_integer(type):
        return values.cast(pa.int64())
    if pa.types.is_floating(type):
        return values.cast(pa.float64())
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return values
    return plain_text(values)


def python_values(values: pa.Array) -> list[object]:
    """An encoded column as a list to bind, without a loop over its rows."""
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        items: list[object] = values.to_numpy(zero_copy_only=False).tolist()
        return items
    filled = values.fill_null(0).to_numpy(zero_copy_only=False)
    not_numbers = np.isnan(filled) if pa.types.is_floating(values.type) else np.zeros(0, dtype=np.bool_)
    if not values.null_count and not not_numbers.any():
        return list(filled.tolist())
    objects = filled.astype(object)
    if not_numbers.any():
        objects[not_numbers] = "NaN"
    objects[values.is_null().to_numpy(zero_copy_only=False)] = None
    return list(objects.tolist())


def decode(column: Column, value: Any) -> object:
    type = column.type
    if column.nested:
        return from_json_text(value, type)
    if pa.types.is_boolean(type):
        return bool(value)
    if pa.types.is_float32(type):
        return as_float32(float(value))
    if pa.types.is_floating(type):
        return float(value)
    if pa.types.is_timestamp(type) and type.tz:
        moment = from_text(value, type)
        return as_utc(moment)  # type: ignore[arg-type]  # from_text answers a datetime for this type
    if pa.types.is_decimal(type) or pa.types.is_timestamp(type) or pa.types.is_date(type):
        return from_text(value, type)
    return value


def array(column: Column, values: Sequence[Any]) -> pa.Array:
    """What `decode` makes of each, all at once.

    >>> array(Column("amount", pa.decimal128(12, 2)), ["3.50", None]).to_pylist()
    [Decimal('3.50'), None]
    """
    type = column.type
    if column.nested:
        return from_json_texts(values, type)
    if pa.types.is_boolean(type):
        return pa.array(values, pa.int64()).cast(type)
    if pa.types.is_floating(type):
        numbers = [float(value) if isinstance(value, str) else value for value in values] if "NaN" in values else values
        return pa.array(numbers, pa.float64()).cast(type)
    if pa.types.is_decimal(type) or pa.types.is_timestamp(type) or pa.types.is_date(type):
        return pa.array(values, pa.string()).cast(type)
    return pa.array(values, type)


def comparison(condition: Condition, first: int) -> tuple[str, list[object]]:
    """Returns SQL with parameters numbered from `first`, and their values."""
    name = quoted(condition.column.name)
    if pa.types.is_decimal(condition.column.type):
        return _decimal_comparison(condition, first)
    bound = python_values(encode(condition.column, as_column(condition.column, list(condition.values))))
    parameters = [f"?{first + index}" for index in range(len(bound))]
    if condition.operator == "in":
        return f"{name} IN ({', '.join(parameters)})", bound
    return f"{name} {condition.operator} {parameters[0]}", bound


def ordering(column: Column) -> list[str]:
    """Expressions that sort as the column's values do."""
    if pa.types.is_decimal(column.type):
        return decimal_pieces(quoted(column.name), column.type.precision)
    return [quoted(column.name)]


def decimal_pieces(name: str, precision: int) -> list[str]:
    """Whole numbers that compare, one after the other, as the decimal does."""
    if precision <= _PIECE_DIGITS:
        return [f"CAST(replace({name}, '.', '') AS INTEGER)"]
    sign = f"(CASE WHEN {name} LIKE '-%' THEN -1 ELSE 1 END)"
    digits = f"substr('{'0' * _DIGITS_MAX}' || replace(replace({name}, '.', ''), '-', ''), -{_DIGITS_MAX})"
    return [
        f"{sign} * CAST(substr({digits}, {start}, {_PIECE_DIGITS}) AS INTEGER)"
        for start in range(1, _DIGITS_MAX, _PIECE_DIGITS)
    ]


def number_pieces(unscaled: int, precision: int) -> list[object]:
    """The same pieces of a number that is compared with."""
    if precision <= _PIECE_DIGITS:
        return [max(-(2**63), min(2**63 - 1, unscaled))]  # any such number lies beyond all 18 digits
    limit = 10**_DIGITS_MAX - 1
    sign, digits = (-1 if unscaled < 0 else 1), f"{min(abs(unscaled), limit):0{_DIGITS_MAX}}"
    return [sign * int(digits[start : start + _PIECE_DIGITS]) for start in range(0, _DIGITS_MAX, _PIECE_DIGITS)]


def _decimal_comparison(condition: Condition, first: int) -> tuple[str, list[object]]:
    """A value with more decimals than the column has lies between two that it can hold."""
    type, operator = condition.column.type, condition.operator
    numbers = [as_exact(condition.column, value).scaleb(type.scale, _EXACT) for value in condition.values]
    if operator in ("=", "!=", "in"):
        return _decimal_equality(condition, [number for number in numbers if number == int(number)], first)
    rounding = ROUND_FLOOR if operator in (">", "<=") else ROUND_CEILING
    bound = number_pieces(int(numbers[0].to_integral_value(rounding)), type.precision)
    left = ", ".join(decimal_pieces(quoted(condition.column.name), type.precision))
    right = ", ".join(f"?{first + index}" for index in range(len(bound)))
    return f"({left}) {operator} ({right})", bound


def _decimal_equality(condition: Condition, whole: Sequence[Decimal], first: int) -> tuple[str, list[object]]:
    name, scale = quoted(condition.column.name), condition.column.type.scale
    if not whole:
        return (f"{name} IS NOT NULL" if condition.operator == "!=" else "1 = 0"), []
    bound: list[object] = [_written(int(number), scale) for number in whole]
    parameters = ", ".join(f"?{first + index}" for index in range(len(bound)))
    return f"{name} {'NOT IN' if condition.operator == '!=' else 'IN'} ({parameters})", bound


def _written(unscaled: int, scale: int) -> str:
    """As Arrow writes a decimal of this scale."""
    sign, digits = ("-" if unscaled < 0 else ""), f"{abs(unscaled):0{scale + 1}}"
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
