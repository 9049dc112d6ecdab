"""Casts as Spark does them under ANSI (pure): a value that does not fit is an error of its row, or null in try_cast."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing_values
from headwater.flow.expressions.functions.arithmetic import to_long, whole_divided
from headwater.flow.expressions.functions.dates import first_day, text_of_days, text_of_times
from headwater.flow.expressions.functions.decimals import MODES, fitted, rescaled, scaled, unscaled
from headwater.flow.expressions.tree import Expression, Untranslatable

MICROS = 1_000_000
UTC = pa.timestamp("us", "UTC")
EXACT_DIGITS = 15
"""Decimals of so many digits are whole doubles, divided by a power of ten that is one as well: rounded once."""
WHOLE = r"^[+-]?[0-9]+$"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
DIGIT = r"(?![𐀀-􏿿])\d"
DECIMAL = re.compile(rf"[+-]?((?:{DIGIT})+\.?(?:{DIGIT})*|\.(?:{DIGIT})+)([eE]([+-]?(?:{DIGIT})+))?")
EXPONENT_DIGITS, DIGITS_MAX = 10, 38
LONG_DIGITS = 18
PLAIN_SCALE = 6
"""Arrow writes decimals with so many digits behind the point without an exponent."""
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
SPACE = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark takes off both ends of a text before it reads a number from it."""


def cast_kind(source: pa.DataType, target: pa.DataType) -> str:
    """The cast of the table at the end that leads from one type to the other. Untranslatable if there is none."""
    if source.equals(target):
        return "same"
    if pa.types.is_null(source):
        return "nothing"
    found = KINDS.get((_family(source), _family(target)))
    if found == "plain" and pa.types.is_decimal(target) and not _holds(source, target):
        found = "rounded"
    if found is None:
        raise Untranslatable(f"cast from {source} to {target}")
    return found


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind):
        return "double" if pa.types.is_float64(kind) else "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "local"
    return str(kind)


def _holds(source: pa.DataType, target: pa.DataType) -> bool:
    """Does the decimal hold every value of the source?"""
    if pa.types.is_decimal(source):
        return bool(target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale)
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}.get(source)
    return digits is not None and target.precision - target.scale >= digits


def cast(node: Expression, rows: int, value: Values) -> Evaluated:
    scalar = isinstance(value, pa.Scalar)
    result = CASTS[node.option("cast")](as_array(value, 1 if scalar else rows), node.type)
    if node.option("lenient"):
        result = Evaluated(result.values)
    if not scalar:
        return result
    errors = None if result.errors is None else pa.repeat(result.errors[0], rows)
    return Evaluated(result.values[0], errors)


def _same(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(values)


def _nothing(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(pa.nulls(len(values), target))


def _plain(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(values.cast(target))


def _nearest(values: pa.Array, target: pa.DataType) -> Evaluated:
    """A whole number as the nearest double or float."""
    return Evaluated(values.cast(target, safe=False))


def _whole(values: pa.Array, target: pa.DataType) -> Evaluated:
    try:
        return Evaluated(values.cast(target))
    except pa.ArrowInvalid:
        numbers = _numbers(values)
        bounds = np.iinfo(target.to_pandas_dtype())
        outside = pa.array((numbers < bounds.min) | (numbers > bounds.max), mask=~_there(values))
        fitting = pc.if_else(pc.fill_null(outside, False), pa.scalar(None, values.type), values)
        return Evaluated(fitting.cast(target), failing_values(outside, values, f"{{}} does not fit into {target}"))


def _truncated(values: pa.Array, target: pa.DataType) -> Evaluated:
    numbers, bounds = _numbers(values).astype(np.float64), np.iinfo(target.to_pandas_dtype())
    inside = (np.floor(numbers) <= float(bounds.max)) & (np.ceil(numbers) >= float(bounds.min))
    whole = to_long(np.where(inside, np.trunc(numbers), 0.0)).astype(target.to_pandas_dtype())
    there = _there(values)
    outside = pa.array(~inside, mask=~there)
    return Evaluated(
        pa.array(whole, target, mask=~(there & inside)),
        failing_values(outside, values, f"{{}} does not fit into {target}"),
    )


def _narrowed(values: pa.Array, target: pa.DataType) -> Evaluated:
    with np.errstate(over="ignore"):
        return Evaluated(pa.array(_numbers(values).astype(np.float32), pa.float32(), mask=~_there(values)))


def _to_double(values: pa.Array, target: pa.DataType) -> Evaluated:
    kind = values.type
    if kind.precision > EXACT_DIGITS:
        whole = [None if one is None else float(one) for one in values.to_pylist()]
        return Evaluated(pa.array(whole, target))
    unscaled = values.view(pa.decimal128(kind.precision, 0)).cast(pa.int64()) if kind.scale else values.cast(pa.int64())
    return Evaluated(pc.divide(unscaled.cast(pa.float64()), 10.0**kind.scale).cast(target))


def _from_flag(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(values.cast(pa.int8()).cast(target))


def _to_flag(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(pc.not_equal(values, pa.scalar(0, values.type)))


def _read_whole(values: pa.Array, target: pa.DataType) -> Evaluated:
    trimmed = pc.utf8_trim(values, SPACE)
    good = pc.match_substring_regex(trimmed, WHOLE)
    digits = pc.utf8_ltrim(pc.if_else(good, trimmed, pa.scalar(None, pa.string())), "+")
    try:
        read, overflow = digits.cast(target), None
    except pa.ArrowInvalid:
        wide = [None if one is None else int(one) for one in digits.to_pylist()]
        bounds = np.iinfo(target.to_pandas_dtype())
        fits = [one is not None and bounds.min <= one <= bounds.max for one in wide]
        read = pa.array([one if fit else None for one, fit in zip(wide, fits, strict=True)], target)
        overflow = pa.array([one is not None and not fit for one, fit in zip(wide, fits, strict=True)])
    bad = pc.invert(good) if overflow is None else pc.or_(pc.invert(good), overflow)
    return Evaluated(read, failing_values(bad, values, f"'{{}}' is no {target}"))


def _read_double(values: pa.Array, target: pa.DataType) -> Evaluated:
    trimmed = pc.utf8_trim(values, SPACE)
    plain = pc.match_substring_regex(trimmed, NUMBER)
    words = pc.ascii_lower(trimmed)
    nan = pc.equal(words, "nan")
    up, down = (pc.is_in(words, value_set=pa.array([*_infinite(sign)])) for sign in ("", "-"))
    up = pc.or_(up, pc.is_in(words, value_set=pa.array([*_infinite("+")])))
    nothing = pa.scalar(None, pa.string())
    digits = pc.utf8_rtrim(pc.utf8_ltrim(pc.if_else(plain, trimmed, nothing), "+"), "dDfF")
    # Arrow reads no number that ends or begins with its point.
    digits = pc.replace_substring_regex(digits, r"^(-?)\.", r"\g<1>0.".replace(r"\g<1>", r"\1"))
    read = pc.replace_substring_regex(digits, r"\.([eE]|$)", r"\1").cast(pa.float64())
    for mask, number in ((nan, float("nan")), (up, float("inf")), (down, float("-inf"))):
        read = pc.if_else(pc.fill_null(mask, False), pa.scalar(number), read)
    bad = pc.invert(pc.or_(pc.or_(plain, nan), pc.or_(up, down)))
    return Evaluated(read.cast(target), failing_values(bad, values, f"'{{}}' is no {target}"))


def _infinite(sign: str) -> tuple[str, str]:
    return f"{sign}infinity", f"{sign}inf"


def _read_flag(values: pa.Array, target: pa.DataType) -> Evaluated:
    words = pc.ascii_lower(pc.utf8_trim(values, SPACE))
    true, false = (pc.is_in(words, value_set=pa.array(known)) for known in (TRUE, FALSE))
    known = pc.or_(true, false)
    read = pc.if_else(pc.and_(known, pc.is_valid(values)), true, pa.scalar(None, pa.bool_()))
    return Evaluated(read, failing_values(pc.and_(pc.invert(known), pc.is_valid(values)), values, "'{}' is no boolean"))


def _day(values: pa.Array, target: pa.DataType) -> Evaluated:
    days = np.floor_divide(_numbers(values.cast(pa.int64())), 86_400 * MICROS)
    return Evaluated(pa.array(days.astype(np.int32), pa.int32(), mask=~_there(values)).cast(pa.date32()))


def _midnight(values: pa.Array, target: pa.DataType) -> Evaluated:
    micros = pc.multiply(values.cast(pa.int32()).cast(pa.int64()), 86_400 * MICROS)
    return Evaluated(micros.cast(target))


def _seconds(values: pa.Array, target: pa.DataType) -> Evaluated:
    """Since 1970, as whole numbers."""
    seconds = np.floor_divide(_numbers(values.cast(pa.int64())), MICROS)
    return _whole(pa.array(seconds, pa.int64(), mask=~_there(values)), target)


def _exact_seconds(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(pc.divide(values.cast(pa.int64()).cast(pa.float64(), safe=False), float(MICROS)).cast(target))


def _time_text(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(text_of_times(values))


def _day_text(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(text_of_days(values))


def _same_micros(values: pa.Array, target: pa.DataType) -> Evaluated:
    return Evaluated(values.cast(pa.int64()).cast(target))


def _from_seconds(values: pa.Array, target: pa.DataType) -> Evaluated:
    """Whole seconds since 1970; what is too large is the largest."""
    numbers, limit = _numbers(values).astype(np.int64), 2**63 // MICROS
    micros = np.clip(numbers, -limit, limit) * MICROS
    micros = np.where(numbers > limit, 2**63 - 1, np.where(numbers < -limit, -(2**63), micros))
    return Evaluated(pa.array(micros, pa.int64(), mask=~_there(values)).cast(target))


def _decimal_text(values: pa.Array, target: pa.DataType) -> Evaluated:
    if values.type.scale <= PLAIN_SCALE:
        return Evaluated(values.cast(target))
    return Evaluated(pa.array([None if one is None else format(one, "f") for one in values.to_pylist()], target))


def _decimal_to_whole(values: pa.Array, target: pa.DataType) -> Evaluated:
    """Towards zero."""
    if values.type.precision <= LONG_DIGITS:
        digits = values.view(pa.decimal128(values.type.precision, 0)).cast(pa.int64())
        return _whole(pc.divide(digits, 10**values.type.scale), target)
    by, bounds = 10**values.type.scale, np.iinfo(target.to_pandas_dtype())
    whole = [None if one is None else whole_divided(one, by) for one in unscaled(values)]
    fits = [one is not None and bounds.min <= one <= bounds.max for one in whole]
    read = pa.array([one if fit else None for one, fit in zip(whole, fits, strict=True)], target)
    large = pa.array([one is not None and not fit for one, fit in zip(whole, fits, strict=True)])
    return Evaluated(read, failing_values(large, values, f"{{}} does not fit into {target}"))


def _rounded(values: pa.Array, target: pa.DataType) -> Evaluated:
    """A number as a decimal that may have fewer digits."""
    wide = values if pa.types.is_decimal(values.type) else values.cast(pa.decimal128(19, 0))
    scale = wide.type.scale
    if wide.type.precision < DIGITS_MAX:
        wider = wide.cast(pa.decimal128(wide.type.precision + 1, scale))
        try:
            return Evaluated(pc.round(wider, target.scale, MODES["round"]).cast(target))
        except pa.ArrowInvalid:  # some row has too many digits
            pass
    return fitted([None if one is None else rescaled(one, scale, target.scale) for one in unscaled(wide)], target)


def _read_decimal(values: pa.Array, target: pa.DataType) -> Evaluated:
    found = [None if text is None else _unscaled_text(text.strip(SPACE[:-1]), target) for text in values.to_pylist()]
    limit = 10**target.precision
    good = [one if one is not None and abs(one) < limit else None for one in found]
    read = scaled(good, target)
    bad = pc.and_(pc.is_valid(values), pc.is_null(read))
    return Evaluated(read, failing_values(bad, values, f"'{{}}' is no {target}"))


def _unscaled_text(text: str, target: pa.DataType) -> int | None:
    """None for what is no number, or is far too large."""
    found = DECIMAL.fullmatch(text)
    if found is None or len((found[3] or "").lstrip("+-0")) > EXPONENT_DIGITS:
        return None
    sign, digits, exponent = Decimal(text).as_tuple()
    whole, scale = int("".join(map(str, digits))), -int(exponent)
    if not -(2**31) <= scale < 2**31 or (whole and len(digits) - scale > DIGITS_MAX):
        return None
    if not whole or len(digits) - scale < -target.scale:
        return 0
    return rescaled(-whole if sign else whole, scale, target.scale)


def _read_day(values: pa.Array, target: pa.DataType) -> Evaluated:
    """yyyy, yyyy-[m]m, yyyy-[m]m-[d]d, and what stands behind a blank or a T."""
    coded = values.dictionary_encode()
    days = pa.array([_days_of_text(one) for one in coded.dictionary.to_pylist()], pa.int32())
    read = days.take(coded.indices)
    bad = pc.and_(pc.is_valid(values), pc.is_null(read))
    return Evaluated(read.cast(pa.date32()), failing_values(bad, values, "'{}' is no date"))


def _days_of_text(text: str) -> int | None:
    found = DATE.fullmatch(text.strip(SPACE))
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    if not 1 <= month <= 12 or day < 1:
        return None
    place = (year - 1970) * 12 + month - 1
    first, after = first_day(np.array([place, place + 1])).tolist()
    days = int(first) + day - 1
    return days if days < after and -(2**31) <= days < 2**31 else None


def _numbers(values: pa.Array) -> Any:
    return pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)


def _there(values: pa.Array) -> Any:
    return pc.is_valid(values).to_numpy(zero_copy_only=False)


CASTS = {
    "same": _same, "nothing": _nothing, "plain": _plain, "nearest": _nearest, "whole": _whole, "truncated": _truncated,
    "narrowed": _narrowed, "decimal_to_double": _to_double, "from_flag": _from_flag, "to_flag": _to_flag,
    "read_whole": _read_whole, "read_double": _read_double, "read_flag": _read_flag, "day": _day,
    "midnight": _midnight, "seconds": _seconds, "exact_seconds": _exact_seconds,
    "time_text": _time_text, "day_text": _day_text, "same_micros": _same_micros, "from_seconds": _from_seconds,
    "decimal_text": _decimal_text, "decimal_to_whole": _decimal_to_whole, "rounded": _rounded,
    "read_decimal": _read_decimal, "read_day": _read_day,
}  # fmt: skip

KINDS = {
    ("whole", "whole"): "whole",
    ("whole", "double"): "nearest",
    ("whole", "float"): "nearest",
    ("whole", "decimal"): "plain",
    ("whole", "string"): "plain",
    ("whole", "bool"): "to_flag",
    ("float", "double"): "plain",
    ("double", "float"): "narrowed",
    ("float", "whole"): "truncated",
    ("double", "whole"): "truncated",
    ("decimal", "decimal"): "plain",
    ("decimal", "double"): "decimal_to_double",
    ("bool", "whole"): "from_flag",
    ("bool", "double"): "from_flag",
    ("bool", "string"): "plain",
    ("string", "whole"): "read_whole",
    ("string", "double"): "read_double",
    ("string", "bool"): "read_flag",
    ("string", "binary"): "plain",
    ("timestamp", "date32[day]"): "day",
    ("local", "date32[day]"): "day",
    ("date32[day]", "timestamp"): "midnight",
    ("date32[day]", "local"): "midnight",
    ("timestamp", "whole"): "seconds",
    ("timestamp", "double"): "exact_seconds",
    ("timestamp", "string"): "time_text",
    ("local", "string"): "time_text",
    ("date32[day]", "string"): "day_text",
    ("timestamp", "local"): "same_micros",
    ("local", "timestamp"): "same_micros",
    ("whole", "timestamp"): "from_seconds",
    ("decimal", "string"): "decimal_text",
    ("decimal", "whole"): "decimal_to_whole",
    ("decimal", "bool"): "to_flag",
    ("double", "bool"): "to_flag",
    ("float", "bool"): "to_flag",
    ("string", "decimal"): "read_decimal",
    ("string", "date32[day]"): "read_day",
}
