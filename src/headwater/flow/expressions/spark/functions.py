"""Reads functions of Spark's that need a look at their inputs: literals, types, modes. Part of expressions.py."""

from typing import Any

import pyarrow as pa

from headwater.flow.expressions.functions import patterns, time_texts
from headwater.flow.expressions.functions.dates import DIFFERENCES, TRUNCATED_DATES
from headwater.flow.expressions.spark.types import Handler, Java, Reads, constant
from headwater.flow.expressions.tree import LITERAL, Expression, Untranslatable
from headwater.flow.operators.spark_hashes import SEED, can_hash

Reader = Reads
PLAIN: dict[str, str] = {
    "BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor", "BitwiseNot": "bit_not",
    "BitwiseCount": "bit_count", "ShiftLeft": "shift_left", "ShiftRight": "shift_right",
    "ShiftRightUnsigned": "shift_right_unsigned", "NaNvl": "nanvl", "Signum": "signum", "Rint": "rint",
    "LastDay": "last_day", "AddMonths": "add_months", "WeekDay": "weekday", "UnixDate": "as_number",
    "DateFromUnixDate": "as_number", "PreciseTimestampConversion": "as_number",
}  # fmt: skip
HASHES = {"XxHash64": "xxhash64", "Murmur3Hash": "murmur3"}
DECIMAL_DIGITS = 38


def _refused(node: Java, *inputs: Expression) -> Untranslatable:
    return Untranslatable(f"{node.sql()} of {', '.join(str(one.type) for one in inputs)}")


def _plain(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made(PLAIN[name], node, *reader.inputs(node))


def _hashed(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if int(node.seed()) != SEED or not all(can_hash(one.type) for one in inputs):
        raise _refused(node, *inputs)
    return reader.made(HASHES[name], node, *inputs)


def _rounded(reader: Reader, name: str, node: Java) -> Expression:
    """Doubles are left to Spark: it rounds the digits that Java writes, which differ between versions of Java."""
    value, scale = reader.inputs(node)
    digits = int(constant(scale, node))
    room = pa.types.is_decimal(value.type) and value.type.precision < DECIMAL_DIGITS
    room = room and -digits <= value.type.precision - value.type.scale
    if not (pa.types.is_integer(value.type) or room) or not bool(node.ansiEnabled()):
        raise _refused(node, value)
    return reader.made("round" if name == "Round" else "bround", node, value, digits=digits)


def _joined_with(reader: Reader, name: str, node: Java) -> Expression:
    separator, *parts = reader.inputs(node)
    if not all(pa.types.is_string(one.type) for one in parts):
        raise _refused(node, *parts)
    return reader.made("concat_ws", node, *parts, separator=constant(separator, node))


def _padded(reader: Reader, name: str, node: Java) -> Expression:
    value, length, pad = reader.inputs(node)
    if not pa.types.is_string(value.type):
        raise _refused(node, value)
    kind = {"StringLPad": "lpad", "StringRPad": "rpad"}[name]
    return reader.made(kind, node, value, length=int(constant(length, node)), pad=constant(pad, node))


def _repeated(reader: Reader, name: str, node: Java) -> Expression:
    value, times = reader.inputs(node)
    return reader.made("repeat", node, value, times=int(constant(times, node)))


def _reversed(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if not pa.types.is_string(inputs[0].type):
        raise _refused(node, *inputs)
    return reader.made("reverse", node, *inputs)


def _place_of(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if name == "StringLocate":
        search, value, start = inputs
        if constant(start, node) != 1:
            raise _refused(node, *inputs)
    else:
        value, search = inputs
    return reader.made("place_of", node, value, search=constant(search, node))


def _exchanged(reader: Reader, name: str, node: Java) -> Expression:
    value, search, by = reader.inputs(node)
    old, new = constant(search, node), constant(by, node)
    if "\0" in new:
        raise _refused(node, value)
    found: dict[int, int | None] = {}
    for place, sign in enumerate(old):
        found.setdefault(ord(sign), ord(new[place]) if place < len(new) else None)
    return reader.made("translate", node, value, by=tuple(found.items()))


def _before_nth(reader: Reader, name: str, node: Java) -> Expression:
    value, separator, count = reader.inputs(node)
    wanted = constant(separator, node)
    if len(wanted) > 1:  # separators that overlap each other are counted otherwise from the end
        raise _refused(node, value)
    return reader.made("substring_index", node, value, separator=wanted, count=int(constant(count, node)))


def _rlike(reader: Reader, name: str, node: Java) -> Expression:
    value, pattern = reader.inputs(node)
    return reader.made("rlike", node, value, pattern=patterns.translated(constant(pattern, node)))


def _extracted(reader: Reader, name: str, node: Java) -> Expression:
    value, pattern, group = reader.inputs(node)
    number = int(constant(group, node))
    if number < 0:
        raise _refused(node, value)
    read = patterns.translated(constant(pattern, node), group=number)
    return reader.made("regexp_extract", node, value, pattern=read)


def _regexp_replaced(reader: Reader, name: str, node: Java) -> Expression:
    value, pattern, by, start = reader.inputs(node)
    text = constant(by, node)
    if constant(start, node) != 1 or "$" in text or "\\" in text:
        raise _refused(node, value)
    return reader.made("regexp_replace", node, value, pattern=patterns.replaceable(constant(pattern, node)), by=text)


def _array(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made("array", node, *reader.inputs(node))


def _numbers(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if len(inputs) != 2 or not all(pa.types.is_integer(one.type) for one in inputs):
        raise _refused(node, *inputs)
    return reader.made("sequence", node, *inputs)


def _contains(reader: Reader, name: str, node: Java) -> Expression:
    array, wanted = reader.inputs(node)
    if pa.types.is_nested(wanted.type) or not array.type.value_type.equals(wanted.type):
        raise _refused(node, array, wanted)
    return reader.made("array_contains", node, array, wanted)


def _array_joined(reader: Reader, name: str, node: Java) -> Expression:
    array, separator, *null = reader.inputs(node)
    if not pa.types.is_string(array.type.value_type):
        raise _refused(node, array)
    written = constant(null[0], node) if null else None
    return reader.made("array_join", node, array, separator=constant(separator, node), null=written)


def _element_at(reader: Reader, name: str, node: Java) -> Expression:
    """Of an array, counted from 1, from the end if negative; or of a map."""
    holder, place = reader.inputs(node)
    if pa.types.is_map(holder.type):
        return _map_value(reader, name, node)
    index = int(constant(place, node))
    if index == 0:
        raise _refused(node, holder)
    options: dict[str, Any] = {"index": index - 1 if index > 0 else index, "from_end": True}
    return reader.made("element", node, holder, **options, lenient=not bool(node.failOnError()))


def _map_value(reader: Reader, name: str, node: Java) -> Expression:
    holder, key = reader.inputs(node)
    wanted = constant(key, node)
    plain = pa.types.is_string(key.type) or pa.types.is_integer(key.type)
    if not plain or not holder.type.key_type.equals(key.type):
        raise _refused(node, holder)
    return reader.made("map_value", node, holder, key=pa.scalar(wanted, key.type))


def _date_truncated(reader: Reader, name: str, node: Java) -> Expression:
    day, unit = reader.inputs(node)
    known = TRUNCATED_DATES.get(str(constant(unit, node)).lower())
    if known is None:
        raise _refused(node, day)
    return reader.made("trunc_date", node, day, unit=known)


def _made_date(reader: Reader, name: str, node: Java) -> Expression:
    if not bool(node.failOnError()):
        raise Untranslatable(f"{node.sql()} without ANSI")
    return reader.made("make_date", node, *reader.inputs(node))


def _months_added(reader: Reader, name: str, node: Java) -> Expression:
    """A date or a time and an interval of months that is a literal."""
    interval = node.interval()
    months = _months(interval)
    if name == "DateAddYMInterval":
        count = Expression(LITERAL, pa.int32(), options=(("value", pa.scalar(months, pa.int32())),))
        return reader.made("add_months", node, reader.read(node.date()), count)
    return reader.made("add_months_to_time", node, reader.read(node.timestamp()), months=months)


def _months(interval: Java) -> int:
    name = str(interval.getClass().getSimpleName())
    if name == "UnaryMinus":
        return -_months(interval.child())
    if name != "Literal" or interval.eval(None) is None:
        raise Untranslatable(str(interval.sql()))
    return int(interval.eval(None))


def _time_between(reader: Reader, name: str, node: Java) -> Expression:
    micros = DIFFERENCES.get(str(node.unit()).lower())
    if micros is None:
        raise Untranslatable(str(node.sql()))
    return reader.made("time_between", node, *reader.inputs(node), micros=micros)


def _time_added(reader: Reader, name: str, node: Java) -> Expression:
    count, time = reader.inputs(node)
    micros = DIFFERENCES.get(str(node.unit()).lower(), 0) * int(constant(count, node))
    if not DIFFERENCES.get(str(node.unit()).lower()) or abs(micros) >= 2**63:
        raise Untranslatable(str(node.sql()))
    return reader.made("shift_time", node, time, micros=micros)


def _unix_seconds(reader: Reader, name: str, node: Java) -> Expression:
    value, _ = reader.inputs(node)
    if not (pa.types.is_timestamp(value.type) or pa.types.is_date(value.type)):
        raise _refused(node, value)
    return reader.made("unix_seconds", node, value)


def _written(reader: Reader, name: str, node: Java) -> Expression:
    time, pattern = reader.inputs(node)
    return reader.made("date_format", node, time, parts=time_texts.parts_of(constant(pattern, node)))


FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys(PLAIN, _plain),
    **dict.fromkeys(HASHES, _hashed),
    "Round": _rounded,
    "BRound": _rounded,
    "ConcatWs": _joined_with,
    "StringLPad": _padded,
    "StringRPad": _padded,
    "StringRepeat": _repeated,
    "Reverse": _reversed,
    "StringInstr": _place_of,
    "StringLocate": _place_of,
    "StringTranslate": _exchanged,
    "SubstringIndex": _before_nth,
    "RLike": _rlike,
    "RegExpExtract": _extracted,
    "RegExpReplace": _regexp_replaced,
    "CreateArray": _array,
    "ArrayContains": _contains,
    "Sequence": _numbers,
    "ArrayJoin": _array_joined,
    "ElementAt": _element_at,
    "GetMapValue": _map_value,
    "TruncDate": _date_truncated,
    "MakeDate": _made_date,
    "DateAddYMInterval": _months_added,
    "TimestampAddYMInterval": _months_added,
    "TimestampDiff": _time_between,
    "TimestampAdd": _time_added,
    "UnixTimestamp": _unix_seconds,
    "ToUnixTimestamp": _unix_seconds,
    "DateFormatClass": _written,
}
