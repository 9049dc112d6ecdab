"""Reads what Spark's analyser made of an expression: its functions, types and casts, as a tree of our own.

Whatever this file does not name is Untranslatable, and evaluated by Spark. An entry needs a kernel in evaluation.py and
a row in tests/flow/expressions/test_against_spark.py, which compares the two over the values of its types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.flow.expressions.functions.casts import cast_kind
from headwater.flow.expressions.functions.strings import PLAIN_SEPARATORS
from headwater.flow.expressions.functions.times import TRUNCATED
from headwater.flow.expressions.resolution.coercion import decimal_result
from headwater.flow.expressions.spark.functions import FUNCTIONS
from headwater.flow.expressions.spark.types import (
    Handler,
    Java,
    constant,
    hasattr_java,
    refuse_try,
    sequence,
    type_of,
    value_of,
)
from headwater.flow.expressions.tree import Expression, Untranslatable, column, literal

SAME: dict[str, str] = {
    "Not": "not", "IsNull": "is_null", "IsNotNull": "is_not_null", "IsNaN": "is_nan", "And": "and", "Or": "or",
    "EqualNullSafe": "equal_or_both_null", "Coalesce": "coalesce",
    "Upper": "upper", "Lower": "lower", "Year": "year", "Month": "month",
    "DayOfMonth": "day", "Hour": "hour", "Minute": "minute", "Second": "second", "Quarter": "quarter",
    "DayOfYear": "day_of_year", "WeekOfYear": "week", "DayOfWeek": "day_of_week", "DateDiff": "days_between",
    "Sqrt": "sqrt",
}  # fmt: skip
"""Functions that take their inputs as they are."""

COMPARISONS = {
    "EqualTo": "equal", "LessThan": "less", "LessThanOrEqual": "less_equal", "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
}  # fmt: skip
EXTREMES = {"Greatest": "greatest", "Least": "least"}
ARITHMETIC = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "UnaryMinus": "negate", "Abs": "abs"}
DIVISIONS = {"Divide": "divide", "IntegralDivide": "divide_whole", "Remainder": "remainder", "Pmod": "remainder"}
MATCHES = {"Like": "like", "StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}
TRIMS = {"StringTrim": "trim", "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim"}
EPOCHS = {
    "UnixMicros": ("since_epoch", 1), "UnixMillis": ("since_epoch", 1_000), "UnixSeconds": ("since_epoch", 10**6),
    "MicrosToTimestamp": ("from_epoch", 1), "MillisToTimestamp": ("from_epoch", 1_000),
    "SecondsToTimestamp": ("from_epoch", 10**6),
}  # fmt: skip


@dataclass
class Reader:
    """Reads expressions over rows whose columns have these names, by Spark's number of the attribute."""

    columns: Mapping[int, str]
    common: dict[int, Expression] = field(default_factory=dict)

    def read(self, node: Java) -> Expression:
        """Untranslatable, with the part that is, if only Spark can evaluate it."""
        name = str(node.getClass().getSimpleName())
        if name == "Literal" or (bool(node.foldable()) and _constant_parts(node) and _is_single(node)):
            return self._folded(node)
        handler = READERS.get(name)
        if handler is None:
            if hasattr_java(node, "replacement"):
                return self.read(node.replacement())
            raise Untranslatable(f"{node.prettyName() if hasattr_java(node, 'prettyName') else name}")
        return handler(self, name, node)

    def _folded(self, node: Java) -> Expression:
        """What is the same in every row Spark works out; if that fails, it fails for every row."""
        kind = type_of(node)
        try:
            return literal(value_of(node.eval(None), node.dataType()), kind)
        except Untranslatable:
            raise
        except Exception as error:  # whatever the JVM raises; Spark will say it when it is run
            raise Untranslatable(f"{node.sql()} fails") from error

    def inputs(self, node: Java) -> tuple[Expression, ...]:
        return tuple(self.read(one) for one in sequence(node.children()))

    def made(self, kind: str, node: Java, *inputs: Expression, **options: Any) -> Expression:
        return Expression(kind, type_of(node), inputs, tuple(options.items()), str(node.sql()))


def _is_single(node: Java) -> bool:
    """Is its value no array, map or struct?"""
    return not pa.types.is_nested(type_of(node))


def _constant_parts(node: Java) -> bool:
    """Is it made of literals and of functions that this file knows? (To Spark the current time is constant as well.)"""
    name = str(node.getClass().getSimpleName())
    if name == "Literal":
        return True
    if name not in READERS:
        return hasattr_java(node, "replacement") and _constant_parts(node.replacement())
    return all(_constant_parts(one) for one in sequence(node.children()))


def _alias(reader: Reader, name: str, node: Java) -> Expression:
    """A name, or a mark for Spark's optimiser, of a value that stays as it is."""
    return reader.read(node.child())


def _attribute(reader: Reader, name: str, node: Java) -> Expression:
    number = int(node.exprId().id())
    if number not in reader.columns:
        raise Untranslatable(f"column {node.name()}")
    return column(reader.columns[number], type_of(node))


def _same(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made(SAME[name], node, *reader.inputs(node))


def _compared(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if pa.types.is_nested(inputs[0].type) or pa.types.is_null(inputs[0].type):
        raise Untranslatable(f"comparison of {inputs[0].type}")
    return reader.made({**COMPARISONS, **EXTREMES}[name], node, *inputs)


def _calculated(reader: Reader, name: str, node: Java) -> Expression:
    inputs, kind = reader.inputs(node), type_of(node)
    if len(inputs) > 1:
        refuse_try(node)
    elif not bool(node.failOnError()):
        raise Untranslatable(f"{node.sql()} without ANSI")
    if pa.types.is_decimal(kind) and len(inputs) > 1 and decimal_result(ARITHMETIC[name], inputs) != kind:
        if all(pa.types.is_decimal(one.type) for one in inputs):
            return reader.made(f"{ARITHMETIC[name]}_decimal", node, *inputs)
        raise Untranslatable(f"{node.sql()} of {inputs[0].type} and {inputs[1].type}")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise Untranslatable(f"{node.sql()} of {inputs[0].type}")
    return reader.made(ARITHMETIC[name], node, *inputs)


def _divided(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    refuse_try(node)
    kind = inputs[0].type
    options = {"positive": name == "Pmod"} if DIVISIONS[name] == "remainder" else {}
    if pa.types.is_decimal(kind) and name != "IntegralDivide":
        return reader.made(f"{DIVISIONS[name]}_decimal", node, *inputs, **options)
    if not (pa.types.is_floating(kind) or (pa.types.is_integer(kind) and name != "Divide")):
        raise Untranslatable(f"{node.sql()} of {kind}")
    return reader.made(DIVISIONS[name], node, *inputs, **options)


def _cast(reader: Reader, name: str, node: Java) -> Expression:
    child, target, mode = reader.read(node.child()), type_of(node), str(node.evalMode().toString())
    if mode == "LEGACY":
        raise Untranslatable("a cast without ANSI")
    return reader.made("cast", node, child, cast=cast_kind(child.type, target), lenient=mode == "TRY")


def _case(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made("case", node, *reader.inputs(node))


def _among(reader: Reader, name: str, node: Java) -> Expression:
    value, *known = reader.inputs(node)
    if not known or any(one.kind != "literal" for one in known) or pa.types.is_nested(value.type):
        raise Untranslatable("in a list that is not of literals")
    values = [one.option("value").as_py() for one in known]
    some = pa.array([one for one in values if one is not None], value.type)
    return reader.made("in", node, value, known=some, has_null=None in values)


def _matched(reader: Reader, name: str, node: Java) -> Expression:
    value, pattern = reader.inputs(node)
    if not pa.types.is_string(value.type) or (name == "Like" and str(node.escapeChar()) != "\\"):
        raise Untranslatable(str(node.sql()))
    return reader.made(MATCHES[name], node, value, pattern=constant(pattern, node))


def _trimmed(reader: Reader, name: str, node: Java) -> Expression:
    if node.children().size() != 1:
        raise Untranslatable("trim of other characters than blanks")
    return reader.made(TRIMS[name], node, *reader.inputs(node))


def _joined(reader: Reader, name: str, node: Java) -> Expression:
    if not pa.types.is_string(type_of(node)):
        raise Untranslatable("concat of something that is no text")
    return reader.made("concat", node, *reader.inputs(node))


def _length(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made("length", node, *reader.inputs(node))


def _substring(reader: Reader, name: str, node: Java) -> Expression:
    text, position, count = reader.inputs(node)
    if not pa.types.is_string(text.type):
        raise Untranslatable("substring of something that is no text")
    return reader.made("substring", node, text, position=constant(position, node), length=constant(count, node))


def _replaced(reader: Reader, name: str, node: Java) -> Expression:
    text, search, by = reader.inputs(node)
    return reader.made("replace", node, text, search=constant(search, node), by=constant(by, node))


def _split(reader: Reader, name: str, node: Java) -> Expression:
    text, separator, limit = reader.inputs(node)
    wanted = constant(separator, node)
    if constant(limit, node) != -1 or len(wanted) != 1 or wanted not in PLAIN_SEPARATORS:
        raise Untranslatable(str(node.sql()))
    return reader.made("split", node, text, separator=wanted)


def _truncated(reader: Reader, name: str, node: Java) -> Expression:
    unit, time = reader.inputs(node)
    known = TRUNCATED.get(str(constant(unit, node)).lower())
    if known is None or not pa.types.is_timestamp(time.type):
        raise Untranslatable(str(node.sql()))
    return reader.made("date_trunc", node, time, unit=known)


def _shifted(reader: Reader, name: str, node: Java) -> Expression:
    interval = node.interval()
    days = str(interval.dataType().typeName()).startswith(
        ("interval day", "interval hour", "interval min", "interval sec")
    )
    if not days or not _constant_parts(interval):
        raise Untranslatable(str(node.sql()))
    time = reader.read(node.start())
    return reader.made("shift_time", node, time, micros=int(interval.eval(None)))


def _days_added(reader: Reader, name: str, node: Java) -> Expression:
    day, count = reader.inputs(node)
    days = int(constant(count, node))
    return reader.made("add_days", node, day, days=days if name == "DateAdd" else -days)


def _days_of(reader: Reader, name: str, node: Java) -> Expression:
    """Of an interval, which is constant, or it is not read."""
    raise Untranslatable(str(node.sql()))


def _epoch(reader: Reader, name: str, node: Java) -> Expression:
    kind, micros = EPOCHS[name]
    inputs = reader.inputs(node)
    if kind == "from_epoch" and not pa.types.is_integer(inputs[0].type):
        raise Untranslatable(f"{node.sql()} of {inputs[0].type}")
    return reader.made(kind, node, *inputs, micros=micros)


def _whole(reader: Reader, name: str, node: Java) -> Expression:
    inputs = reader.inputs(node)
    if pa.types.is_decimal(inputs[0].type) and inputs[0].type.precision < 38:
        return reader.made(f"{name.lower()}_decimal", node, *inputs)
    if not pa.types.is_int64(type_of(node)):
        raise Untranslatable(f"{node.sql()} of {inputs[0].type}")
    return reader.made(name.lower(), node, *inputs)


def _field(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made("field", node, reader.read(node.child()), ordinal=int(node.ordinal()))


def _element(reader: Reader, name: str, node: Java) -> Expression:
    array, index = reader.inputs(node)
    lenient = not bool(node.failOnError())
    return reader.made("element", node, array, index=int(constant(index, node)), from_end=False, lenient=lenient)


def _size(reader: Reader, name: str, node: Java) -> Expression:
    if bool(node.legacySizeOfNull()):
        raise Untranslatable(str(node.sql()))
    return reader.made("size", node, *reader.inputs(node))


def _struct(reader: Reader, name: str, node: Java) -> Expression:
    return reader.made("struct", node, *(reader.read(one) for one in sequence(node.valExprs())))


def _with(reader: Reader, name: str, node: Java) -> Expression:
    """Common parts of an expression, worked out where they are used."""
    for one in sequence(node.defs()):
        reader.common[int(one.id().id())] = reader.read(one.child())
    return reader.read(node.child())


def _reference(reader: Reader, name: str, node: Java) -> Expression:
    return reader.common[int(node.id().id())]


def _null_if(reader: Reader, name: str, node: Java) -> Expression:
    predicate, value = reader.inputs(node)
    return reader.made("case", node, predicate, literal(None, value.type), value)


READERS: dict[str, Handler] = {
    "Alias": _alias,
    "KnownNullable": _alias,
    "KnownNotNull": _alias,
    "AttributeReference": _attribute,
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys((*COMPARISONS, *EXTREMES), _compared),
    **dict.fromkeys(ARITHMETIC, _calculated),
    **dict.fromkeys(DIVISIONS, _divided),
    "Cast": _cast,
    "CaseWhen": _case,
    "If": _case,
    "In": _among,
    **dict.fromkeys(MATCHES, _matched),
    **dict.fromkeys(TRIMS, _trimmed),
    "Concat": _joined,
    "Length": _length,
    "Substring": _substring,
    "StringReplace": _replaced,
    "StringSplit": _split,
    "TruncTimestamp": _truncated,
    "TimestampAddInterval": _shifted,
    "DateAdd": _days_added,
    "DateSub": _days_added,
    "ExtractANSIIntervalDays": _days_of,
    **dict.fromkeys(EPOCHS, _epoch),
    "Floor": _whole,
    "Ceil": _whole,
    "GetStructField": _field,
    "GetArrayItem": _element,
    "Size": _size,
    "CreateNamedStruct": _struct,
    "With": _with,
    "CommonExpressionRef": _reference,
    "NullIfResult": _null_if,
    **FUNCTIONS,
}
