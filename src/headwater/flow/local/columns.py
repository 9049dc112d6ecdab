"""Columns that are made without a session: what `pyspark.sql.functions` answers while `local_columns` is on.

PySpark's functions ask, at each call, whether they are for a session of this process or for a remote one, and for the
latter hand their arguments to another module. That module is this one here: it keeps what was called, and nothing is
asked of any JVM.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC as UTC_ZONE
from datetime import date, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyspark.sql.utils as spark_utils
from pyspark.sql import Column

from headwater.flow.expressions.resolution.sql_text import parsed
from headwater.flow.expressions.resolution.unresolved import (
    Call,
    CastTo,
    Constant,
    Item,
    Named,
    Reference,
    Star,
    Unresolved,
)
from headwater.flow.expressions.tree import Untranslatable

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
CONNECT = "pyspark.sql.connect"

LITERAL_FIRST = {"date_trunc", "concat_ws"}
"""Functions whose first argument is a value, and not the name of a column."""
OF_COLUMNS = frozenset({
    "abs", "coalesce", "greatest", "least", "upper", "lower", "trim", "ltrim", "rtrim", "length", "concat",
    "isnull", "isnotnull", "isnan", "sqrt", "floor", "ceil", "year", "month", "day", "dayofmonth", "quarter",
    "dayofyear", "weekofyear", "dayofweek", "hour", "minute", "second", "unix_millis", "unix_micros",
    "unix_seconds", "timestamp_micros", "timestamp_millis", "xxhash64", "hash", "struct", "count", "sum", "min",
    "max", "avg", "mean", "collect_list", "collect_set", "count_if", "bool_and", "bool_or", "every", "some",
    "stddev_samp", "stddev_pop", "stddev", "var_samp", "var_pop", "variance", "min_by", "max_by", "nullif", "pmod",
    "startswith", "endswith", "contains", "explode", "explode_outer", "posexplode", "posexplode_outer", "size", "nvl",
    "ifnull", "sequence",
})  # fmt: skip
"""Functions all of whose arguments are columns, or names of columns."""
SAME = {"nvl": "coalesce", "ifnull": "coalesce"}


class LocalColumn:
    """A column as the user wrote it. It answers to what PySpark's columns answer to, as far as it can be resolved."""

    def __init__(self, node: Unresolved, branches: tuple[Unresolved, ...] = ()) -> None:
        self.node = node
        self._branches = branches
        """Of `when`: conditions and values so far."""

    def _made(self, name: str, *others: Any, swapped: bool = False) -> "LocalColumn":
        inputs = (self.node, *map(value_node, others))
        return LocalColumn(Call(name, inputs[::-1] if swapped else inputs))

    def __add__(self, other: Any) -> "LocalColumn":
        return self._made("+", other)

    def __radd__(self, other: Any) -> "LocalColumn":
        return self._made("+", other, swapped=True)

    def __sub__(self, other: Any) -> "LocalColumn":
        return self._made("-", other)

    def __rsub__(self, other: Any) -> "LocalColumn":
        return self._made("-", other, swapped=True)

    def __mul__(self, other: Any) -> "LocalColumn":
        return self._made("*", other)

    def __rmul__(self, other: Any) -> "LocalColumn":
        return self._made("*", other, swapped=True)

    def __truediv__(self, other: Any) -> "LocalColumn":
        return self._made("/", other)

    def __rtruediv__(self, other: Any) -> "LocalColumn":
        return self._made("/", other, swapped=True)

    def __mod__(self, other: Any) -> "LocalColumn":
        return self._made("%", other)

    def __neg__(self) -> "LocalColumn":
        return self._made("negative")

    def __eq__(self, other: object) -> "LocalColumn":  # type: ignore[override]  # as PySpark's columns
        return self._made("=", other)

    def __ne__(self, other: object) -> "LocalColumn":  # type: ignore[override]
        return self._made("!=", other)

    def __lt__(self, other: Any) -> "LocalColumn":
        return self._made("<", other)

    def __le__(self, other: Any) -> "LocalColumn":
        return self._made("<=", other)

    def __gt__(self, other: Any) -> "LocalColumn":
        return self._made(">", other)

    def __ge__(self, other: Any) -> "LocalColumn":
        return self._made(">=", other)

    def __and__(self, other: Any) -> "LocalColumn":
        return self._made("and", other)

    def __rand__(self, other: Any) -> "LocalColumn":
        return self._made("and", other, swapped=True)

    def __or__(self, other: Any) -> "LocalColumn":
        return self._made("or", other)

    def __invert__(self) -> "LocalColumn":
        return self._made("not")

    def __getitem__(self, key: Any) -> "LocalColumn":
        if not isinstance(key, str):
            raise Untranslatable("an element of a column")
        return LocalColumn(Item(self.node, key))

    def __bool__(self) -> bool:
        raise ValueError("a column is neither true nor false: use & for and, | for or, ~ for not")

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Untranslatable(f"Column.{name}")

    def __repr__(self) -> str:
        return f"Column<'{self.node}'>"

    def getField(self, name: str) -> "LocalColumn":
        return self[name]

    def isNull(self) -> "LocalColumn":
        return self._made("isnull")

    def isNotNull(self) -> "LocalColumn":
        return self._made("isnotnull")

    def isNaN(self) -> "LocalColumn":
        return self._made("isnan")

    def eqNullSafe(self, other: Any) -> "LocalColumn":
        return self._made("<=>", other)

    def isin(self, *values: Any) -> "LocalColumn":
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set) else values
        return self._made("in", *given)

    def between(self, low: Any, high: Any) -> "LocalColumn":
        return self._made(">=", low)._made("and", self._made("<=", high))

    def like(self, pattern: str) -> "LocalColumn":
        if "\\" in pattern:
            raise Untranslatable("like with an escape")
        return self._made("like", pattern)

    def startswith(self, other: Any) -> "LocalColumn":
        return self._made("startswith", other)

    def endswith(self, other: Any) -> "LocalColumn":
        return self._made("endswith", other)

    def contains(self, other: Any) -> "LocalColumn":
        return self._made("contains", other)

    def substr(self, start: Any, length: Any) -> "LocalColumn":
        return self._made("substring", start, length)

    def cast(self, kind: Any) -> "LocalColumn":
        return LocalColumn(CastTo(self.node, kind if isinstance(kind, str) else str(kind.simpleString())))

    astype = cast

    def alias(self, *names: str) -> "LocalColumn":
        node = self.node
        for name in reversed(names):  # those of posexplode are two
            node = Named(node, name)
        return LocalColumn(node)

    name = alias

    def when(self, condition: Any, value: Any) -> "LocalColumn":
        branches = (*self._branches, value_node(condition), value_node(value))
        return LocalColumn(Call("case", branches), branches)

    def otherwise(self, value: Any) -> "LocalColumn":
        return LocalColumn(Call("case", (*self._branches, value_node(value))))


def value_node(value: Any) -> Unresolved:
    """A column, or a value of Python's in the type that Spark gives it."""
    match value:
        case LocalColumn():
            return value.node
        case None:
            return Constant(None, pa.null())
        case bool():
            return Constant(value, pa.bool_())
        case int() if abs(value) <= LONG_MAX:
            return Constant(value, pa.int32() if -INT_MAX - 1 <= value <= INT_MAX else pa.int64())
        case float():
            return Constant(value, pa.float64())
        case str():
            return Constant(value, pa.string())
        case bytes():
            return Constant(value, pa.binary())
        case datetime() if value.tzinfo is not None:
            return Constant(value.astimezone(UTC_ZONE), pa.timestamp("us", "UTC"))
        case date() if not isinstance(value, datetime):
            return Constant(value, pa.date32())
        case Decimal() if value.is_finite():
            _, digits, exponent = value.as_tuple()
            scale = max(0, -int(exponent))
            return Constant(value, pa.decimal128(max(len(digits) + max(0, int(exponent)), scale), scale))
    if isinstance(value, Column):
        raise Untranslatable("a column that was made with a session of Spark's")
    raise Untranslatable(f"a literal of {type(value).__name__}")


def column_node(column: Any) -> Unresolved:
    """A column, or the name of one."""
    return named_node(column) if isinstance(column, str) else value_node(column)


def named_node(name: str) -> Unresolved:
    """A name as `col` reads it: fields after points, and backticks around names that have any."""
    if name == "*":
        return Star()
    parts, rest = [], name
    while rest:
        if rest.startswith("`"):
            end = 1
            while rest[end : end + 1] != "`" or rest[end : end + 2] == "``":
                if end >= len(rest):
                    raise Untranslatable(f"column {name}")
                end += 2 if rest[end : end + 2] == "``" else 1
            part, rest = rest[1:end].replace("``", "`"), rest[end + 1 :]
        else:
            part, _, after = rest.partition(".")
            rest = f".{after}" if after else ""
        parts.append(part)
        if rest and not rest.startswith("."):
            raise Untranslatable(f"column {name}")
        rest = rest[1:]
    return Star(tuple(parts[:-1])) if parts[-1] == "*" else Reference(tuple(parts))


class LocalFunctions(ModuleType):
    """What stands for the module to which PySpark hands calls of its functions."""

    def __getattr__(self, name: str) -> Callable[..., LocalColumn]:
        own = OWN.get(name)
        if own is not None:
            return own
        if name in OF_COLUMNS:
            return lambda *given: LocalColumn(Call(SAME.get(name, name), tuple(map(column_node, _spread(given)))))
        if name in LITERAL_FIRST:
            return lambda value, *given: LocalColumn(Call(name, (value_node(value), *map(column_node, given))))
        if name.startswith("__"):
            raise AttributeError(name)
        raise Untranslatable(f"{name}(...)")


def _spread(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else given


def _first(name: str) -> Callable[..., LocalColumn]:
    def made(column: Any, ignorenulls: bool = False) -> LocalColumn:
        return LocalColumn(Call(name, (column_node(column),), ignore_nulls=ignorenulls))

    return made


def _counted(column: Any) -> LocalColumn:
    node = Constant(1, pa.int32()) if column == "*" and isinstance(column, str) else column_node(column)
    return LocalColumn(Call("count", (node,)))


def _distinct(column: Any, *others: Any) -> LocalColumn:
    return LocalColumn(Call("count", tuple(map(column_node, (column, *others))), distinct=True))


def _to_json(column: Any, options: Any = None) -> LocalColumn:
    if options != {"ignoreNullFields": "false"}:
        raise Untranslatable("to_json(...)")
    return LocalColumn(Call("to_json", (column_node(column),)))


def _substring(column: Any, start: Any, length: Any) -> LocalColumn:
    return LocalColumn(Call("substring", (column_node(column), value_node(start), value_node(length))))


def _shifted(name: str) -> Callable[..., LocalColumn]:
    return lambda column, bits: LocalColumn(Call(name, (column_node(column), value_node(bits))))


def _when(condition: Any, value: Any) -> LocalColumn:
    branches = value_node(condition), value_node(value)
    return LocalColumn(Call("case", branches), branches)


OWN: dict[str, Callable[..., LocalColumn]] = {
    "col": lambda name: LocalColumn(named_node(name)),
    "column": lambda name: LocalColumn(named_node(name)),
    "lit": lambda value: value if isinstance(value, LocalColumn) else LocalColumn(value_node(value)),
    "expr": lambda text: LocalColumn(parsed(text)),
    "when": _when,
    "count": _counted,
    "count_distinct": _distinct,
    "countDistinct": _distinct,
    "first": _first("first"),
    "last": _first("last"),
    "any_value": lambda column: LocalColumn(Call("first", (column_node(column),))),
    "to_json": _to_json,
    "substring": _substring,
    "shiftright": _shifted("shiftright"),
    "shiftleft": _shifted("shiftleft"),
}

_turns = threading.RLock()
_users = 0
_restore: Callable[[], None] | None = None


@contextmanager
def local_columns() -> Iterator[None]:
    """Within it, functions of `pyspark.sql.functions` make local columns, in all threads of the process."""
    global _users, _restore
    with _turns:
        _users += 1
        if _users == 1:
            _restore = _switched()
    try:
        yield
    finally:
        with _turns:
            _users -= 1
            if not _users and _restore is not None:
                _restore()


def _switched() -> Callable[[], None]:
    stand_in = ModuleType(CONNECT)
    functions = LocalFunctions(f"{CONNECT}.functions")
    stand_in.functions = functions  # type: ignore[attr-defined]
    there = {name: sys.modules.get(name) for name in (CONNECT, f"{CONNECT}.functions")}
    asked = spark_utils.is_remote
    sys.modules[CONNECT], sys.modules[f"{CONNECT}.functions"] = stand_in, functions
    spark_utils.is_remote = lambda: True

    def restore() -> None:
        spark_utils.is_remote = asked
        for name, module in there.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module

    return restore
