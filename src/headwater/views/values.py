"""Single values between Python and the form in which a store keeps them. Pure.

What people get: int, float, bool, str, bytes, Decimal, date, datetime (aware, UTC; naive for timestamp_ntz), and lists
and dictionaries of these.
"""

import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidQuery
from headwater.views.column_types import nested, spoken
from headwater.views.shape import Column

Decode = Callable[[object], object]


def from_json_text(text: str, type: pa.DataType) -> object:
    """What json_text made of a value.

    >>> from_json_text('{"at":"2026-01-02 03:04:05.000000Z"}', pa.struct([("at", pa.timestamp("us", "UTC"))]))
    {'at': datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)}
    """
    # As text first: a number that became a float would already have lost digits of a decimal.
    return from_json(json.loads(text, parse_float=str), type)


def from_json_texts(texts: Sequence[Any], type: pa.DataType) -> pa.Array:
    """The same of many, as Arrow has them.

    >>> from_json_texts(['{"a": 1}', None], pa.map_(pa.string(), pa.int64())).to_pylist()
    [[('a', 1)], None]
    """
    return pa.array([None if text is None else _pairs(from_json_text(text, type), type) for text in texts], type)


def _pairs(value: Any, type: pa.DataType) -> object:
    """Arrow takes maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(type):
        return [(_pairs(key, type.key_type), _pairs(item, type.item_type)) for key, item in value.items()]
    if pa.types.is_list(type):
        return [_pairs(element, type.value_type) for element in value]
    if pa.types.is_struct(type):
        return {field.name: _pairs(value[field.name], field.type) for field in type}
    return value


def from_json(value: object, type: pa.DataType) -> object:
    match value:
        case None:
            return None
        case list() if pa.types.is_list(type):
            return [from_json(element, type.value_type) for element in value]
        case dict() if pa.types.is_map(type):
            return {_map_key(key, type.key_type): from_json(item, type.item_type) for key, item in value.items()}
        case dict() if pa.types.is_struct(type):
            return {field.name: from_json(value.get(field.name), field.type) for field in type}
        case _:
            return from_text(str(value), type) if not isinstance(value, bool) else value


def _map_key(text: str, type: pa.DataType) -> object:
    return text == "true" if pa.types.is_boolean(type) else from_text(text, type)


def from_text(text: str, type: pa.DataType) -> object:
    """The value that json_text.plain_text wrote."""
    if pa.types.is_integer(type):
        return int(text)
    if pa.types.is_float32(type):
        return as_float32(float(text))
    if pa.types.is_floating(type):
        return float(text)
    if pa.types.is_decimal(type):
        return Decimal(text)
    if pa.types.is_timestamp(type):
        return datetime.fromisoformat(text)
    if pa.types.is_date(type):
        return date.fromisoformat(text)
    if pa.types.is_binary(type):
        return bytes.fromhex(text)
    return text


def as_float32(number: float) -> float:
    """The nearest number of 32 bits, which a shorter text of it stands for."""
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


def as_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def as_column(column: Column, values: list[object]) -> pa.Array:
    """Returns values of a query, as the column has them: text is read as the column's type.

    >>> as_column(Column("amount", pa.decimal128(12, 2)), ["3.5"])[0].as_py()
    Decimal('3.50')
    >>> as_column(Column("tags", pa.list_(pa.string())), ['["a"]'])[0].as_py()
    ['a']
    """
    try:
        texts = all(isinstance(value, str) for value in values)
        if texts and not pa.types.is_string(column.type) and not column.nested:
            return _read(column, [str(value) for value in values])
        return pa.array([_adjusted(value, column.type) for value in values], type=column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, OverflowError, TypeError):
        shown = ", ".join(repr(value)[:60] for value in values)
        raise InvalidQuery(f'{shown} is not a {spoken(column.type)}, which column "{column.name}" has') from None


def _read(column: Column, texts: list[str]) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return pa.array(texts).cast(pa.bool_())
    return pa.array([_adjusted(from_text(text, column.type), column.type) for text in texts], type=column.type)


def _adjusted(value: object, type: pa.DataType) -> object:
    if isinstance(value, datetime) and pa.types.is_timestamp(type):
        if type.tz and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return as_utc(value).replace(tzinfo=None if not type.tz else UTC) if value.tzinfo else value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _adjusted_number(value, type)
    if isinstance(value, str) and nested(type):
        value = from_json_text(value, type)
    if isinstance(value, dict) and pa.types.is_map(type):
        return list(value.items())
    return value


def _adjusted_number(value: int | float | Decimal, type: pa.DataType) -> object:
    """The same number, never a nearby one: Arrow would cut 2.5 down to 2."""
    if pa.types.is_decimal(type):
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if pa.types.is_floating(type):
        return float(value)
    if pa.types.is_integer(type) and value != int(value):
        raise ValueError(f"{value} is not whole")
    return int(value) if pa.types.is_integer(type) else value


def as_exact(column: Column, value: object) -> Decimal:
    """A number to compare decimals with; one may have more digits than the column can hold."""
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number.adjusted()) > 50:
        raise InvalidQuery(f'{value!r} cannot be compared with column "{column.name}", which holds decimals')
    return number
