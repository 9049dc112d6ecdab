"""What JSON decoding should give, written plainly with Python's json module, one value at a time."""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

T = TypeVar("T")
INTEGER_RANGES = {pa.int8(): 2**7, pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63}
SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "+Infinity": float("inf"), "-Infinity": -float("inf")}
SPECIAL |= {"+INF": float("inf"), "-INF": -float("inf")}
UNITS = {"seconds": 10**6, "millis": 10**3, "micros": 1}
FLOAT_MAX = float(np.finfo(np.float32).max)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PRECISE = Context(prec=1000, Emin=-999_999, Emax=999_999, rounding=ROUND_HALF_UP)


class Bad(Exception):
    pass


class Text(str):
    """A number as it was written."""


def _refuse(*_: object) -> None:
    raise Bad


def _last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of equal names the last counts, and stands where the last stands."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.pop(name, None)
        found[name] = value
    return found


def decode(value: bytes | None, schema: pa.Schema, unit: str | None = None) -> dict[str, Any]:
    """The row, or Bad."""
    if value is None:
        raise Bad
    try:
        text = value.decode("utf-8")
        found = json.loads(text, parse_int=Text, parse_float=Text, parse_constant=_refuse, object_pairs_hook=_last)
    except (ValueError, RecursionError):
        raise Bad from None
    if not isinstance(found, dict) or text.startswith("\ufeff"):
        raise Bad
    return _struct(found, schema, unit)


def _struct(found: dict[str, Any], fields: Any, unit: str | None) -> dict[str, Any]:
    row = {}
    for field in fields:
        row[field.name] = convert(found.get(field.name), field.type, unit)
        if row[field.name] is None and not field.nullable:
            raise Bad
    return row


def convert(value: Any, kind: pa.DataType, unit: str | None = None) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _struct(value, kind.fields, unit) if isinstance(value, dict) else _refuse()
    if pa.types.is_list(kind):
        return [convert(each, kind.value_type, unit) for each in value] if isinstance(value, list) else _refuse()
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise Bad
        return [(convert(key, kind.key_type), convert(each, kind.item_type, unit)) for key, each in value.items()]
    if pa.types.is_string(kind):
        return _string(value)
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else _refuse()
    if pa.types.is_decimal(kind):
        return _decimal(value, kind)
    if isinstance(value, Text):
        return _from_number(value, kind, unit)
    return _from_text(value, kind) if isinstance(value, str) else _refuse()


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise NotImplementedError("the text of an object is not known to this reference")
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError:
        raise Bad from None
    return str(value)


def _from_number(value: Text, kind: pa.DataType, unit: str | None) -> Any:
    if pa.types.is_integer(kind):
        if not re.fullmatch(r"-?[0-9]+", value):
            raise Bad
        number, limit = int(value), INTEGER_RANGES[kind]
        return number if -limit <= number < limit else _refuse()
    if pa.types.is_floating(kind):
        return float(value) if kind == pa.float64() else _float32(value)
    if pa.types.is_timestamp(kind) and unit is not None:
        micros = PRECISE.multiply(Decimal(value), UNITS[unit]).quantize(Decimal(1), context=PRECISE)
        if not -62_135_596_800_000_000 <= micros <= 253_402_300_799_999_999:
            raise Bad
        moment = EPOCH + timedelta(microseconds=int(micros))
        return moment if kind.tz else moment.replace(tzinfo=None)
    raise Bad


def _float32(text: str) -> float:
    """The nearest float of 32 bits, the even one of two: found by exact fractions."""
    exact = Fraction(Decimal(text))
    if abs(exact) >= 2**128 - 2**103:
        return -math.inf if exact < 0 else math.inf
    near = np.float32(min(max(float(text), -FLOAT_MAX), FLOAT_MAX))
    candidates = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    finite = [each for each in candidates if np.isfinite(each)]
    best = min(finite, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.int32)) & 1))
    return float(best) if best else math.copysign(0.0, float(text) or (-1.0 if text.startswith("-") else 1.0))


def _from_text(value: str, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind) and value in SPECIAL:
        return SPECIAL[value]
    if pa.types.is_timestamp(kind):
        return _timestamp(value, zoned=kind.tz is not None)
    if pa.types.is_date(kind) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        return _or_bad(lambda: date(*map(int, value.split("-"))))
    if pa.types.is_binary(kind):
        return _or_bad(lambda: _exact_base64(value))
    raise Bad


def _exact_base64(value: str) -> bytes:
    raw = base64.b64decode(value, validate=True)
    if base64.b64encode(raw).decode() != value:
        raise Bad
    return raw


def _or_bad(function: Callable[[], T]) -> T:
    try:
        return function()
    except (ValueError, OverflowError, binascii.Error):
        raise Bad from None


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Bad
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        raise Bad
    number = Decimal(value)
    if number.adjusted() > 100 and number:
        raise Bad
    rounded = number.quantize(Decimal(1).scaleb(-kind.scale), context=PRECISE) if number else Decimal(0)
    if len(rounded.as_tuple().digits) > kind.precision and rounded:
        raise Bad
    return rounded.quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=200, traps=[Inexact]))


PATTERN = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?([Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)


def _timestamp(value: str, *, zoned: bool) -> datetime:
    found = PATTERN.fullmatch(value)
    if not found or (found[8] and not zoned):
        raise Bad
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "").ljust(6, "0")[:6])
    hours, minutes = int(found[10] or 0), int(found[11] or 0)
    if hours * 60 + minutes > 18 * 60 or minutes > 59:
        raise Bad
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if found[9] == "-" else 1)
    zone = timezone(offset)
    return _or_bad(
        lambda: (
            (datetime(year, month, day, hour, minute, second, micros) - offset).replace(tzinfo=UTC)
            if zoned
            else datetime(year, month, day, hour, minute, second, micros, tzinfo=zone).replace(tzinfo=None)
        )
    )
