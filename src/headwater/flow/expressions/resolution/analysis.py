"""Resolves expressions without Spark: the tree that Spark's analyser would lead to, or Untranslatable (pure).

Only what is certain is resolved: a rule stands here if tests/flow/expressions/test_analysis.py finds the same tree as
the one read from Spark's plan. Whatever is in doubt is left to Spark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.expressions.functions import patterns, time_texts
from headwater.flow.expressions.functions.strings import PLAIN_SEPARATORS
from headwater.flow.expressions.functions.times import TRUNCATED, UNITS_US
from headwater.flow.expressions.resolution.coercion import (
    UTC,
    cast_as_written,
    cast_to,
    common_type,
    decimal_of,
    decimal_result,
    folded,
    is_number,
    quotient_type,
    remainder_type,
    rounded_result,
    wider_decimal,
)
from headwater.flow.expressions.resolution.unresolved import (
    Call,
    CastTo,
    Constant,
    Item,
    Named,
    Reference,
    Unresolved,
    name_of,
)
from headwater.flow.expressions.tree import LITERAL, Expression, Untranslatable, column, literal
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.operators.spark_hashes import can_hash

COMPARISONS = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
MATCHES = {"like": "like", "startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}
OF_DAYS = {
    "year": "year", "month": "month", "day": "day", "dayofmonth": "day", "quarter": "quarter",
    "dayofyear": "day_of_year", "weekofyear": "week", "dayofweek": "day_of_week",
}  # fmt: skip
OF_TIMES = ("hour", "minute", "second")
EPOCHS = {
    "unix_micros": ("since_epoch", 1, pa.int64()), "unix_millis": ("since_epoch", 1_000, pa.int64()),
    "unix_seconds": ("since_epoch", 10**6, pa.int64()), "timestamp_micros": ("from_epoch", 1, UTC),
    "timestamp_millis": ("from_epoch", 1_000, UTC),
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A column that expressions may read: its name for the user, the name of its values, and its type."""

    name: str
    internal: str
    type: pa.DataType


def resolve_expression(node: Unresolved, columns: Mapping[str, Known]) -> Expression:
    """`columns` are those of the row by the user's name; two of one name are left out of it."""
    return Analyser(columns).read(node)


@dataclass(frozen=True)
class Analyser:
    columns: Mapping[str, Known]

    def read(self, node: Unresolved) -> Expression:
        match node:
            case Reference(parts):
                return self._reference(parts)
            case Constant(value, kind):
                return literal(value, kind)
            case Named(inner, _):
                return self.read(inner)
            case Item(inner, key):
                return field_of(self.read(inner), key)
            case CastTo(inner, kind, lenient):
                return cast_as_written(self.read(inner), type_called(kind), lenient=lenient)
            case Call():
                return self._call(node)
        raise Untranslatable("* within an expression")

    def _reference(self, parts: tuple[str, ...]) -> Expression:
        known = self.columns.get(parts[0])
        if known is None:
            raise Untranslatable(f"column {'.'.join(parts)}")
        found = column(known.internal, known.type)
        for part in parts[1:]:
            found = field_of(found, part)
        return found

    def _call(self, node: Call) -> Expression:
        rule = RULES.get(node.name)
        if rule is None or node.distinct or node.condition is not None:
            raise Untranslatable(f"{node.name}(...)")
        inputs = tuple(self.read(one) for one in node.inputs)
        if node.name == "struct":
            return _struct([name_of(one) or f"col{place}" for place, one in enumerate(node.inputs, 1)], inputs)
        made = rule(node.name, inputs)
        return folded(made) if made.inputs and all(one.kind == LITERAL for one in inputs) else made


def type_called(kind: str | pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return parse_ddl(f"one {kind}").fields[0].type
    except InvalidDeclaration as error:
        raise Untranslatable(f"type {kind}") from error


def field_of(value: Expression, name: str) -> Expression:
    if not pa.types.is_struct(value.type):
        raise Untranslatable(f"field {name} of {value.type}")
    number = value.type.get_field_index(name)
    if number < 0:
        raise Untranslatable(f"field {name} of {value.type}")
    return made("field", value.type.field(number).type, value, ordinal=number)


def made(kind: str, type: pa.DataType, *inputs: Expression, **options: object) -> Expression:
    return Expression(kind, type, inputs, tuple(options.items()), f"{kind}({', '.join(one.text for one in inputs)})")


def _counted(inputs: tuple[Expression, ...], count: int, name: str) -> tuple[Expression, ...]:
    if len(inputs) != count:
        raise Untranslatable(f"{name} of {len(inputs)} inputs")
    return inputs


def _text(inputs: tuple[Expression, ...], name: str) -> tuple[Expression, ...]:
    if not all(pa.types.is_string(one.type) for one in inputs):
        raise Untranslatable(f"{name} of {', '.join(str(one.type) for one in inputs)}")
    return inputs


def _constant(node: Expression, name: str) -> object:
    if node.kind != LITERAL or (value := node.option("value").as_py()) is None:
        raise Untranslatable(f"{name}, not of a literal")
    return value


def _in_common(inputs: tuple[Expression, ...]) -> tuple[Expression, ...]:
    kind = common_type([one.type for one in inputs])
    return tuple(cast_to(one, kind) for one in inputs)


def _compared_inputs(inputs: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Both sides of a comparison in one type."""
    one, other = inputs
    kinds = {one.type, other.type}
    if pa.types.is_string(one.type) != pa.types.is_string(other.type):
        text, value = (one, other) if pa.types.is_string(one.type) else (other, one)
        if text.kind != LITERAL or value.type not in (UTC, pa.date32()):
            raise Untranslatable(f"comparison of {one.type} and {other.type}")
        return cast_to(one, value.type), cast_to(other, value.type)
    if any(pa.types.is_decimal(kind) for kind in kinds) and not any(pa.types.is_floating(kind) for kind in kinds):
        if not all(is_number(kind) for kind in kinds):
            raise Untranslatable(f"comparison of {one.type} and {other.type}")
        written = any(each.kind == LITERAL and pa.types.is_decimal(each.type) for each in (one, other))
        if written and not all(map(pa.types.is_decimal, kinds)):
            raise Untranslatable("a whole number beside a decimal literal")
        one, other = decimal_of(one), decimal_of(other)
        kind = wider_decimal(one.type, other.type)
        return cast_to(one, kind), cast_to(other, kind)
    return _in_common(inputs)


def _compared(name: str, inputs: tuple[Expression, ...]) -> Expression:
    one, other = _compared_inputs(_counted(inputs, 2, name))
    nested = pa.types.is_nested(one.type)
    if pa.types.is_null(one.type) or (nested and (name != "<=>" or not one.type.equals(other.type))):
        raise Untranslatable(f"comparison of {one.type}")
    if name == "!=":
        return made("not", pa.bool_(), folded(made("equal", pa.bool_(), one, other)))
    kind = "equal_or_both_null" if name == "<=>" else COMPARISONS[name]
    return made(kind, pa.bool_(), one, other)


def _between(name: str, inputs: tuple[Expression, ...]) -> Expression:
    value, low, high = _counted(inputs, 3, name)
    if value.kind == LITERAL:
        raise Untranslatable("a constant between others")
    return made("and", pa.bool_(), _compared(">=", (value, low)), _compared("<=", (value, high)))


def _calculated(name: str, inputs: tuple[Expression, ...]) -> Expression:
    one, other = _counted(inputs, 2, name)
    if not (is_number(one.type) and is_number(other.type)):
        raise Untranslatable(f"{name} of {one.type} and {other.type}")
    if _is_decimal(one, other):
        one, other = decimal_of(one), decimal_of(other)
        kind = decimal_result(ARITHMETIC[name], (one, other))
        if kind is None:
            return made(
                f"{ARITHMETIC[name]}_decimal", rounded_result(ARITHMETIC[name], one.type, other.type), one, other
            )
        return made(ARITHMETIC[name], kind, one, other)
    one, other = _in_common((one, other))
    return made(ARITHMETIC[name], one.type, one, other)


def _is_decimal(*inputs: Expression) -> bool:
    kinds = [one.type for one in inputs]
    return any(map(pa.types.is_decimal, kinds)) and not any(map(pa.types.is_floating, kinds))


def _divided(name: str, inputs: tuple[Expression, ...]) -> Expression:
    one, other = _counted(inputs, 2, name)
    if not (is_number(one.type) and is_number(other.type)):
        raise Untranslatable(f"{name} of {one.type} and {other.type}")
    if _is_decimal(one, other):
        one, other = decimal_of(one), decimal_of(other)
        return made("divide_decimal", quotient_type(one.type, other.type), one, other)
    return made("divide", pa.float64(), cast_to(one, pa.float64()), cast_to(other, pa.float64()))


def _divided_whole(name: str, inputs: tuple[Expression, ...]) -> Expression:
    one, other = _counted(inputs, 2, name)
    if not (pa.types.is_integer(one.type) and pa.types.is_integer(other.type)):
        raise Untranslatable(f"div of {one.type} and {other.type}")
    return made("divide_whole", pa.int64(), *(cast_to(each, pa.int64()) for each in (one, other)))


def _remainder(name: str, inputs: tuple[Expression, ...]) -> Expression:
    one, other = _counted(inputs, 2, name)
    if not (is_number(one.type) and is_number(other.type)):
        raise Untranslatable(f"{name} of {one.type} and {other.type}")
    positive = name == "pmod"
    if _is_decimal(one, other):
        one, other = decimal_of(one), decimal_of(other)
        return made("remainder_decimal", remainder_type(one.type, other.type), one, other, positive=positive)
    one, other = _in_common((one, other))
    return made("remainder", one.type, one, other, positive=positive)


def _signed(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (one,) = _counted(inputs, 1, name)
    if not is_number(one.type):
        raise Untranslatable(f"{name} of {one.type}")
    return made({"negative": "negate", "abs": "abs"}[name], one.type, one)


def _logic(name: str, inputs: tuple[Expression, ...]) -> Expression:
    flags = tuple(cast_to(one, pa.bool_()) if pa.types.is_null(one.type) else one for one in inputs)
    if not all(pa.types.is_boolean(one.type) for one in flags):
        raise Untranslatable(f"{name} of {', '.join(str(one.type) for one in inputs)}")
    return made(name, pa.bool_(), *flags)


def _tested(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (one,) = _counted(inputs, 1, name)
    return made({"isnull": "is_null", "isnotnull": "is_not_null"}[name], pa.bool_(), one)


def _nan_test(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (one,) = _counted(inputs, 1, name)
    if not pa.types.is_floating(one.type):
        raise Untranslatable(f"isnan of {one.type}")
    return made("is_nan", pa.bool_(), one)


def _chosen(name: str, inputs: tuple[Expression, ...]) -> Expression:
    """The first that is known, or the largest or smallest."""
    given = _decimals_in_common(inputs)
    if len(given) < 2 or (name != "coalesce" and pa.types.is_nested(given[0].type)):
        raise Untranslatable(f"{name} of {len(given)} inputs")
    return made(name, given[0].type, *given)


def _decimals_in_common(inputs: tuple[Expression, ...]) -> tuple[Expression, ...]:
    kinds = [one.type for one in inputs if not pa.types.is_null(one.type)]
    if not kinds:
        raise Untranslatable("nothing but nulls")
    mixed = any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_floating, kinds))
    nested = any(map(pa.types.is_nested, kinds)) and len({*kinds}) > 1
    if mixed or nested:
        raise Untranslatable(f"{', '.join(map(str, kinds))} together")
    return _in_common(inputs)


def _case(name: str, inputs: tuple[Expression, ...]) -> Expression:
    conditions, values = inputs[0 : len(inputs) - 1 : 2], [*inputs[1::2]]
    if len(inputs) % 2:
        values.append(inputs[-1])
    if not all(pa.types.is_boolean(one.type) for one in conditions):
        raise Untranslatable("case of a condition that is none")
    fitted = iter(_decimals_in_common(tuple(values)))
    found: list[Expression] = []
    for condition in conditions:
        found += [condition, next(fitted)]
    found += fitted
    return made("case", found[1].type, *found)


def _among(name: str, inputs: tuple[Expression, ...]) -> Expression:
    value, *known = _decimals_in_common(inputs)
    if not known or any(one.kind != LITERAL for one in known) or pa.types.is_nested(value.type):
        raise Untranslatable("in a list that is not of literals")
    values = [one.option("value").as_py() for one in known]
    some = pa.array([one for one in values if one is not None], value.type)
    return made("in", pa.bool_(), value, known=some, has_null=None in values)


def _matched(name: str, inputs: tuple[Expression, ...]) -> Expression:
    value, pattern = _text(_counted(inputs, 2, name), name)
    return made(MATCHES[name], pa.bool_(), value, pattern=_constant(pattern, name))


def _of_text(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _text(_counted(inputs, 1, name), name)
    return made(name, pa.int32() if name == "length" else pa.string(), value)


def _joined(name: str, inputs: tuple[Expression, ...]) -> Expression:
    return made("concat", pa.string(), *_text(inputs, name))


def _substring(name: str, inputs: tuple[Expression, ...]) -> Expression:
    text, position, count = _counted(inputs, 3, name)
    _text((text,), name)
    if not (pa.types.is_int32(position.type) and pa.types.is_int32(count.type)):
        raise Untranslatable("substring by numbers that are no int")
    return made("substring", pa.string(), text, position=_constant(position, name), length=_constant(count, name))


def _day_part(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    if value.type not in (UTC, pa.date32()):
        raise Untranslatable(f"{name} of {value.type}")
    return made(OF_DAYS[name], pa.int32(), cast_to(value, pa.date32()))


def _moved(name: str, inputs: tuple[Expression, ...]) -> Expression:
    """A date or a time and an interval."""
    value, count, unit = _counted(inputs, 3, name)
    by, said = count.option("value").as_py(), unit.option("value").as_py()
    if said in ("month", "year"):
        months = by * 12 if said == "year" else by
        if value.type == UTC:
            return made("add_months_to_time", UTC, value, months=months)
        if pa.types.is_date(value.type):
            return made("add_months", pa.date32(), value, literal(months, pa.int32()))
    elif value.type == UTC:
        return made("shift_time", UTC, value, micros=by * UNITS_US[said])
    elif pa.types.is_date(value.type) and said == "day":
        return made("add_days", pa.date32(), value, days=by)
    raise Untranslatable(f"{value.type} and an interval of {said}s")


def _time_part(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    if value.type != UTC:
        raise Untranslatable(f"{name} of {value.type}")
    return made(name, pa.int32(), value)


def _truncated(name: str, inputs: tuple[Expression, ...]) -> Expression:
    unit, time = _counted(inputs, 2, name)
    known = TRUNCATED.get(str(_constant(unit, name)).lower())
    if known is None or time.type != UTC:
        raise Untranslatable(f"{name} of {time.type}")
    return made("date_trunc", UTC, time, unit=known)


def _epoch(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,), (kind, micros, result) = _counted(inputs, 1, name), EPOCHS[name]
    wanted = UTC if kind == "since_epoch" else pa.int64()
    if value.type != wanted:
        raise Untranslatable(f"{name} of {value.type}")
    return made(kind, result, value, micros=micros)


def _root(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    if not (is_number(value.type)):
        raise Untranslatable(f"{name} of {value.type}")
    return made("sqrt", pa.float64(), cast_to(value, pa.float64()))


def _whole(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    if not pa.types.is_float64(value.type):
        raise Untranslatable(f"{name} of {value.type}")
    return made(name, pa.int64(), value)


def _null_if(name: str, inputs: tuple[Expression, ...]) -> Expression:
    value, other = _counted(inputs, 2, name)
    if not value.type.equals(other.type) or value.kind == LITERAL:
        raise Untranslatable(f"nullif of {value.type} and {other.type}")
    return made("case", value.type, _compared("=", (value, other)), literal(None, value.type), value)


def _hashed(name: str, inputs: tuple[Expression, ...]) -> Expression:
    if not inputs or not all(can_hash(one.type) for one in inputs):
        raise Untranslatable(f"{name} of {', '.join(str(one.type) for one in inputs)}")
    return made({"hash": "murmur3"}.get(name, name), pa.int32() if name == "hash" else pa.int64(), *inputs)


def _shifted(name: str, inputs: tuple[Expression, ...]) -> Expression:
    value, bits = _counted(inputs, 2, name)
    if value.type not in (pa.int32(), pa.int64()) or not pa.types.is_int32(bits.type):
        raise Untranslatable(f"{name} of {value.type} and {bits.type}")
    return made({"shiftright": "shift_right", "shiftleft": "shift_left"}[name], value.type, value, bits)


def _struct(names: list[str], inputs: tuple[Expression, ...]) -> Expression:
    fields = [pa.field(name, one.type) for name, one in zip(names, inputs, strict=True)]
    return made("struct", pa.struct(fields), *inputs)


def _size(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    if not (pa.types.is_list(value.type) or pa.types.is_map(value.type)):
        raise Untranslatable(f"size of {value.type}")
    return made("size", pa.int32(), value)


def _time_text(name: str, inputs: tuple[Expression, ...]) -> Expression:
    time, pattern = _counted(inputs, 2, name)
    if time.type != UTC or not pa.types.is_string(pattern.type):
        raise Untranslatable(f"{name} of {time.type}")
    return made("date_format", pa.string(), time, parts=time_texts.parts_of(str(_constant(pattern, name))))


def _extracted(name: str, inputs: tuple[Expression, ...]) -> Expression:
    text, pattern, group = _counted(inputs, 3, name)
    _text((text, pattern), name)
    number = _constant(group, name)
    if not isinstance(number, int) or number < 0:
        raise Untranslatable(f"{name} of group {number}")
    read = patterns.translated(str(_constant(pattern, name)), group=number)
    return made("regexp_extract", pa.string(), text, pattern=read)


def _replaced(name: str, inputs: tuple[Expression, ...]) -> Expression:
    text, search, by = _text(_counted(inputs, 3, name), name)
    return made("replace", pa.string(), text, search=_constant(search, name), by=_constant(by, name))


def _split(name: str, inputs: tuple[Expression, ...]) -> Expression:
    text, separator = _text(_counted(inputs, 2, name), name)
    wanted = str(_constant(separator, name))
    if len(wanted) != 1 or wanted not in PLAIN_SEPARATORS:
        raise Untranslatable(f"split by {wanted!r}")
    return made("split", pa.list_(pa.field("element", pa.string(), nullable=False)), text, separator=wanted)


def _element(name: str, inputs: tuple[Expression, ...]) -> Expression:
    array, place = _counted(inputs, 2, name)
    index = _constant(place, name)
    if not pa.types.is_list(array.type) or not isinstance(index, int):
        raise Untranslatable(f"an element of {array.type}")
    return made("element", array.type.value_type, array, index=index, from_end=False, lenient=False)


def _numbers(name: str, inputs: tuple[Expression, ...]) -> Expression:
    both = _in_common(_counted(inputs, 2, name))
    if not pa.types.is_integer(both[0].type):
        raise Untranslatable(f"{name} of {both[0].type}")
    return made("sequence", pa.list_(pa.field("element", both[0].type, nullable=False)), *both)


def _json(name: str, inputs: tuple[Expression, ...]) -> Expression:
    (value,) = _counted(inputs, 1, name)
    return made("to_json", pa.string(), value)


Rule = Callable[[str, tuple[Expression, ...]], Expression]
RULES: dict[str, Rule] = {
    **dict.fromkeys((*COMPARISONS, "!=", "<=>"), _compared),
    **dict.fromkeys(ARITHMETIC, _calculated),
    "/": _divided,
    "div": _divided_whole,
    **dict.fromkeys(("%", "pmod"), _remainder),
    **dict.fromkeys(("negative", "abs"), _signed),
    **dict.fromkeys(("and", "or", "not"), _logic),
    **dict.fromkeys(("isnull", "isnotnull"), _tested),
    "isnan": _nan_test,
    **dict.fromkeys(("coalesce", "greatest", "least"), _chosen),
    **dict.fromkeys(("case", "if"), _case),
    "between": _between,
    "in": _among,
    **dict.fromkeys(MATCHES, _matched),
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim", "length"), _of_text),
    "concat": _joined,
    "substring": _substring,
    **dict.fromkeys(OF_DAYS, _day_part),
    **dict.fromkeys(OF_TIMES, _time_part),
    "shift": _moved,
    "date_trunc": _truncated,
    **dict.fromkeys(EPOCHS, _epoch),
    "sqrt": _root,
    **dict.fromkeys(("floor", "ceil"), _whole),
    "nullif": _null_if,
    **dict.fromkeys(("shiftright", "shiftleft"), _shifted),
    "struct": _joined,
    "size": _size,
    "date_format": _time_text,
    "regexp_extract": _extracted,
    "replace": _replaced,
    "split": _split,
    "[]": _element,
    "sequence": _numbers,
    "to_json": _json,
    **dict.fromkeys(("xxhash64", "hash"), _hashed),
}
