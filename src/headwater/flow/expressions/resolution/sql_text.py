"""Reads SQL text as an unresolved expression, without Spark (pure).

sqlglot parses Spark's dialect, and gives some functions another form than the text has. So only forms that stand in the
tables of this file are read, each of which says the same in Spark; everything else is Untranslatable.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.flow.expressions.resolution.unresolved import Call, CastTo, Constant, Named, Reference, Star, Unresolved
from headwater.flow.expressions.tree import Untranslatable

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
DECIMAL_DIGITS = 38

BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.EQ: "=",
    exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.And: "and",
    exp.Or: "or", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip
UNARY: dict[type[exp.Expression], str] = {exp.Neg: "negative", exp.Not: "not", exp.BitwiseNot: "~"}
FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Abs: "abs", exp.Upper: "upper", exp.Lower: "lower", exp.Length: "length", exp.Sqrt: "sqrt",
    exp.Min: "min", exp.Max: "max", exp.Sum: "sum", exp.Avg: "avg",
    exp.IsNan: "isnan", exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
    exp.CountIf: "count_if", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.VariancePop: "var_pop", exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.Variance: "var_samp",
    exp.Stddev: "stddev_samp", exp.First: "first", exp.Last: "last", exp.AnyValue: "first",
    exp.UnixMillis: "unix_millis", exp.UnixMicros: "unix_micros", exp.UnixSeconds: "unix_seconds", exp.Floor: "floor",
    exp.Ceil: "ceil", exp.ArrayUniqueAgg: "collect_set",
}  # fmt: skip
"""Functions of one input."""
READ: dict[type[exp.Expression], frozenset[str]] = {
    exp.Like: frozenset({"negate"}), exp.Case: frozenset({"ifs", "default"}), exp.If: frozenset({"true", "false"}),
    exp.Cast: frozenset({"to"}), exp.TryCast: frozenset({"to"}), exp.TimestampTrunc: frozenset({"unit"}),
    exp.Greatest: frozenset({"ignore_nulls"}), exp.Least: frozenset({"ignore_nulls"}), exp.Div: frozenset({"typed"}),
    exp.GenerateSeries: frozenset({"start", "end"}),
    exp.Substring: frozenset({"start", "length"}), exp.Between: frozenset({"low", "high"}),
    exp.Column: frozenset({"table", "db", "catalog"}), exp.Literal: frozenset({"is_string"}),
    exp.Identifier: frozenset({"quoted"}), exp.Alias: frozenset({"alias"}), exp.Count: frozenset({"big_int"}),
}  # fmt: skip
"""What else than its inputs is looked at of a form; one that says more is not read."""
INPUTS = frozenset({"this", "expression", "expressions", "safe", "nulls_excluded"})
SHIFTS = (exp.Add, exp.Sub)
UNITS = {one: one for one in ("second", "minute", "hour", "day", "month", "year")}
"""Of intervals."""
EXTRACTED = ("year", "quarter", "month", "day", "hour", "minute")
QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(")
NAMES = frozenset({
    "in", "and", "or", "not", "when", "then", "else", "case", "filter", "where", "as", "distinct", "between",
    "like", "is", "div", "cast", "decimal", "from", "both", "abs", "upper", "lower", "length", "char_length",
    "sqrt", "year", "month", "day", "dayofmonth", "quarter", "dayofyear", "weekofyear", "dayofweek", "hour",
    "minute", "second", "min", "max", "sum", "avg", "mean", "count", "count_if", "stddev", "stddev_samp",
    "stddev_pop", "variance", "var_samp", "var_pop", "bool_and", "bool_or", "every", "some", "first", "first_value",
    "last", "last_value", "any_value", "collect_list", "array_agg", "collect_set", "min_by", "max_by", "isnull",
    "isnotnull", "isnan", "coalesce", "nvl", "ifnull", "nullif", "greatest", "least", "concat", "substring",
    "startswith", "endswith", "contains", "if", "pmod", "trim", "ltrim", "rtrim", "floor", "ceil", "date_trunc",
    "unix_millis", "unix_micros", "unix_seconds", "timestamp_micros", "timestamp_millis", "xxhash64", "hash",
    "size", "date_format", "regexp_extract", "replace", "split", "extract", "sequence",
})  # fmt: skip
"""All that may stand before a bracket: sqlglot reads names that Spark does not know."""
AS_WRITTEN = re.compile(r"\b(date_format|regexp_extract|replace|split)(?=\s*\()", re.IGNORECASE)
PREFIX = "as_written_"
"""Functions whose literals sqlglot would change, such as patterns of times, or whose defaults it would write."""


@lru_cache(maxsize=4096)
def parsed(text: str) -> Unresolved:
    """
    >>> parsed("amount + 1 as more")
    Named(input=Call(name='+', inputs=(Reference(parts=('amount',)), Constant(value=1, type=DataType(int32))), \
distinct=False, condition=None, ignore_nulls=False), name='more')
    """
    if unknown := [one for one in CALLED.findall(text) if one.lower() not in NAMES]:
        raise Untranslatable(f"{unknown[0]}(...)")
    return _read(_tree(text))


def _tree(text: str) -> exp.Expression:
    """Within SELECT, because names such as copy begin statements of their own otherwise."""
    try:
        tree = sqlglot.parse_one(f"SELECT {_prepared(text)}", dialect="spark")
    except SqlglotError as error:
        raise Untranslatable(f"`{text}`, which only Spark can read") from error
    more = [name for name, value in tree.args.items() if value and name != "expressions"]
    if not isinstance(tree, exp.Select) or more or len(tree.expressions) != 1:
        raise Untranslatable(f"`{text}`, which only Spark can read")
    found: exp.Expression = tree.expressions[0]
    return found


def _prepared(text: str) -> str:
    found, position = "", 0
    for quoted in QUOTED.finditer(text):
        found += AS_WRITTEN.sub(rf"{PREFIX}\1", text[position : quoted.start()]) + _one_text(quoted)
        position = quoted.end()
    return found + AS_WRITTEN.sub(rf"{PREFIX}\1", text[position:])


def _one_text(found: re.Match[str]) -> str:
    """'it''s' is one text to Spark, and two to sqlglot, which would connect them: 'it\\'s' is the same to both."""
    text, quote = found.group(), found.group()[0]
    if quote not in "'\"":
        return text
    within = re.sub(rf"\\.|{quote}{quote}", lambda one: one.group().replace(quote * 2, f"\\{quote}"), text[1:-1])
    return f"{quote}{within}{quote}"


def _read(node: exp.Expression) -> Unresolved:
    kind = type(node)
    if any(value for name, value in node.args.items() if name not in INPUTS | READ.get(kind, frozenset())):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    if kind in SHIFTS and isinstance(node.args["expression"], exp.Interval):
        return _shifted(node)
    if kind in BINARY:
        return Call(BINARY[kind], (_read(node.this), _read(node.args["expression"])))
    if kind in UNARY:
        return _unary(node)
    if kind in FUNCTIONS and _only_this(node):
        return _aggregate_of(Call(FUNCTIONS[kind], (_read(node.this),)), node.this, FUNCTIONS[kind])
    reader = READERS.get(kind)
    if reader is None:
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return reader(node)


def _shifted(node: exp.Expression) -> Unresolved:
    """A date or a time and an interval of one unit."""
    interval, unit = node.args["expression"], node.args["expression"].args.get("unit")
    given = interval.this
    whole = isinstance(given, exp.Literal) and str(given.this).isdigit()
    known = UNITS.get(str(unit.this).lower().removesuffix("s")) if isinstance(unit, exp.Var) else None
    if not whole or known is None or int(str(given.this)) > INT_MAX:
        raise Untranslatable(f"`{interval.sql(dialect='spark')}`")
    count = int(str(given.this)) * (1 if isinstance(node, exp.Add) else -1)
    return Call("shift", (_read(node.this), Constant(count, pa.int32()), Constant(known, pa.string())))


def _extracted(node: exp.Expression) -> Unresolved:
    name = str(node.this.this).lower() if isinstance(node.this, exp.Var) else ""
    if name not in EXTRACTED:
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call(name, (_read(node.args["expression"]),))


def _only_this(node: exp.Expression) -> bool:
    return all(
        name == "this" or not value for name, value in node.args.items() if name not in ("safe", "nulls_excluded")
    )


def _unary(node: exp.Expression) -> Unresolved:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _literal(node.this, sign="-")
    return Call(UNARY[type(node)], (_read(node.this),))


def _literal(node: exp.Expression, sign: str = "") -> Unresolved:
    text = str(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        if "\\" in text:  # what escapes mean is for Spark to say
            raise Untranslatable(f"`{node.sql(dialect='spark')}`")
        return Constant(text, pa.string())
    number = sign + text
    if text.isdigit():
        value = int(number)
        if abs(int(text)) > LONG_MAX:
            raise Untranslatable(f"the number {text}")
        return Constant(value, pa.int32() if -INT_MAX - 1 <= value <= INT_MAX else pa.int64())
    if not text.replace(".", "", 1).isdigit() or not text[:1].isdigit() or text.endswith("."):
        raise Untranslatable(f"the number {text}")
    whole, _, fraction = text.partition(".")
    digits = len((whole.lstrip("0") + fraction) or "0")
    precision = max(digits, len(fraction))
    if precision > DECIMAL_DIGITS:
        raise Untranslatable(f"the number {text}")
    return Constant(Decimal(number), pa.decimal128(precision, len(fraction)))


def _column(node: exp.Expression) -> Unresolved:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return Star(tuple(str(one.this) for one in node.parts[:-1]))
    parts = [node] if isinstance(node, exp.Identifier) else list(node.parts) if isinstance(node, exp.Column) else None
    if parts is None:
        parts = [*_parts(node.this), node.args["expression"]]
    return Reference(tuple(str(one.this) for one in parts))


def _parts(node: exp.Expression) -> list[exp.Expression]:
    found = _column(node)
    if not isinstance(found, Reference):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return [exp.to_identifier(one) for one in found.parts]


def _null_test(node: exp.Expression) -> Unresolved:
    if not isinstance(node.args["expression"], exp.Null):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("isnull", (_read(node.this),))


def _negated(node: exp.Expression) -> Unresolved:
    """`x is not null` is a test of its own."""
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.args["expression"], exp.Null):
        return Call("isnotnull", (_read(inner.this),))
    return Call("not", (_read(inner),))


def _between(node: exp.Expression) -> Unresolved:
    value, low, high = (_read(node.args[name]) for name in ("this", "low", "high"))
    if node.args.get("symmetric"):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("between", (value, low, high))


def _among(node: exp.Expression) -> Unresolved:
    if any(node.args.get(name) for name in ("query", "unnest", "field")):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("in", (_read(node.this), *map(_read, node.args["expressions"])))


def _like(node: exp.Expression) -> Unresolved:
    call = Call("like", (_read(node.this), _read(node.args["expression"])))
    return Call("not", (call,)) if node.args.get("negate") else call


def _case(node: exp.Expression) -> Unresolved:
    given, inputs = node.args.get("this"), []
    for branch in node.args["ifs"]:
        test = _read(branch.this)
        inputs += [test if given is None else Call("=", (_read(given), test)), _read(branch.args["true"])]
    if node.args.get("default") is not None:
        inputs.append(_read(node.args["default"]))
    return Call("case", tuple(inputs))


def _if(node: exp.Expression) -> Unresolved:
    otherwise = node.args.get("false")
    if otherwise is None:
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("if", (_read(node.this), _read(node.args["true"]), _read(otherwise)))


def _cast(node: exp.Expression) -> Unresolved:
    target = node.args["to"]
    if node.args.get("format") or node.args.get("default"):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return CastTo(_read(node.this), target.sql(dialect="spark").lower())


def _several(name: str) -> Callable[[exp.Expression], Unresolved]:
    """A function of `this` and more inputs."""

    def read(node: exp.Expression) -> Unresolved:
        return Call(name, (_read(node.this), *map(_read, node.args.get("expressions") or ())))

    return read


def _joined(node: exp.Expression) -> Unresolved:
    if isinstance(node, exp.DPipe):
        return Call("concat", (_read(node.this), _read(node.args["expression"])))
    return Call("concat", tuple(map(_read, node.args["expressions"])))


def _count(node: exp.Expression) -> Unresolved:
    inner, others = node.this, node.args.get("expressions") or []
    if others:
        return Call("count", tuple(map(_read, (inner, *others))))
    if isinstance(inner, exp.Star):
        return Call("count", (Constant(1, pa.int32()),))
    if isinstance(inner, exp.Distinct):
        return _aggregate_of(Call("count", ()), inner, "count")
    return Call("count", (_read(inner),))


def _aggregate_of(call: Call, inner: exp.Expression, name: str) -> Unresolved:
    if isinstance(inner, exp.Distinct):
        if inner.args.get("on") or (len(inner.expressions) != 1 and name != "count"):
            raise Untranslatable(f"`{inner.sql(dialect='spark')}`")
        return Call(name, tuple(map(_read, inner.expressions)), distinct=True)
    return call


def _filtered(node: exp.Expression) -> Unresolved:
    call = _read(node.this)
    where = node.args["expression"]
    if not isinstance(call, Call) or not isinstance(where, exp.Where):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call(call.name, call.inputs, call.distinct, _read(where.this), call.ignore_nulls)


def _alias(node: exp.Expression) -> Unresolved:
    return Named(_read(node.this), str(node.alias))


def _anonymous(node: exp.Expression) -> Unresolved:
    """Functions that sqlglot has no form of its own for: they are as they are written."""
    return Call(str(node.this).lower().removeprefix(PREFIX), tuple(map(_read, node.args["expressions"])))


def _element(node: exp.Expression) -> Unresolved:
    """`array[3]`, which sqlglot counts as Spark does."""
    places = node.expressions
    if len(places) != 1:
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("[]", (_read(node.this), _read(places[0])))


def _substring(node: exp.Expression) -> Unresolved:
    inputs = [node.args.get(name) for name in ("this", "start", "length")]
    if any(one is None for one in inputs):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("substring", tuple(_read(one) for one in inputs if one is not None))


def _pair(name: str) -> Callable[[exp.Expression], Unresolved]:
    """A function of `this` and `expression`."""

    def read(node: exp.Expression) -> Unresolved:
        return Call(name, (_read(node.this), _read(node.args["expression"])))

    return read


def _day_part(name: str) -> Callable[[exp.Expression], Unresolved]:
    def read(node: exp.Expression) -> Unresolved:
        inner = node.this
        return Call(name, (_read(inner.this if isinstance(inner, exp.TsOrDsToDate) else inner),))

    return read


def _truncated(node: exp.Expression) -> Unresolved:
    if node.args.get("zone") or not isinstance(node.args["unit"], exp.Var | exp.Literal):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("date_trunc", (Constant(str(node.args["unit"].this), pa.string()), _read(node.this)))


def _collected(node: exp.Expression) -> Unresolved:
    if isinstance(node.this, exp.Order | exp.Distinct | exp.Limit):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("collect_list", (_read(node.this),))


def _without_nulls(node: exp.Expression) -> Unresolved:
    call = _read(node.this)
    if not isinstance(call, Call):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return replace(call, ignore_nulls=True)


def _numbers(node: exp.Expression) -> Unresolved:
    inputs = [node.args.get(name) for name in ("start", "end")]
    if node.args.get("step") or any(one is None for one in inputs):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("sequence", tuple(_read(one) for one in inputs if one is not None))


def _trim(node: exp.Expression) -> Unresolved:
    if not _only_this(node):
        raise Untranslatable(f"`{node.sql(dialect='spark')}`")
    return Call("trim", (_read(node.this),))


READERS: dict[type[exp.Expression], Callable[[exp.Expression], Unresolved]] = {
    exp.Alias: _alias,
    exp.Paren: lambda node: _read(node.this),
    exp.Column: _column,
    exp.Dot: _column,
    exp.Identifier: _column,
    exp.Star: lambda node: Star(),
    exp.Literal: _literal,
    exp.Boolean: lambda node: Constant(bool(node.this), pa.bool_()),
    exp.Null: lambda node: Constant(None, pa.null()),
    exp.Is: _null_test,
    exp.Not: _negated,
    exp.Between: _between,
    exp.In: _among,
    exp.Like: _like,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Coalesce: _several("coalesce"),
    exp.Greatest: _several("greatest"),
    exp.Least: _several("least"),
    exp.DPipe: _joined,
    exp.Concat: _joined,
    exp.Count: _count,
    exp.Filter: _filtered,
    exp.Anonymous: _anonymous,
    exp.Bracket: _element,
    exp.Substring: _substring,
    exp.StartsWith: _pair("startswith"),
    exp.EndsWith: _pair("endswith"),
    exp.Contains: _pair("contains"),
    exp.Nullif: _pair("nullif"),
    exp.ArgMin: _pair("min_by"),
    exp.ArgMax: _pair("max_by"),
    exp.Year: _day_part("year"),
    exp.Month: _day_part("month"),
    exp.Quarter: _day_part("quarter"),
    exp.Day: _day_part("day"),
    exp.DayOfMonth: _day_part("day"),
    exp.DayOfWeek: _day_part("dayofweek"),
    exp.DayOfYear: _day_part("dayofyear"),
    exp.WeekOfYear: _day_part("weekofyear"),
    exp.TimestampTrunc: _truncated,
    exp.ArrayAgg: _collected,
    exp.IgnoreNulls: _without_nulls,
    exp.GenerateSeries: _numbers,
    exp.Trim: _trim,
    exp.Extract: _extracted,
}
UNARY.pop(exp.Not)
