"""What the readers of Spark's expressions share: Java's sequences, types and values as Python and Arrow have them."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType, _parse_datatype_json_string

from headwater.flow.expressions.tree import Expression, Untranslatable
from headwater.flow.rows.arrow_types import arrow_type

Java = Any


class Reads(Protocol):
    """Reads expressions of Spark's; `Reader` of expressions.py."""

    def read(self, node: Java) -> Expression: ...

    def inputs(self, node: Java) -> tuple[Expression, ...]: ...

    def made(self, kind: str, node: Java, *inputs: Expression, **options: Any) -> Expression: ...


Handler = Callable[[Any, str, Java], Expression]
"""Called with the reader, the name of the node's class, and the node."""


def hasattr_java(node: Java, name: str) -> bool:
    return any(str(one.getName()) == name for one in node.getClass().getMethods())


def sequence(items: Java) -> list[Java]:
    return [items.apply(number) for number in range(items.size())]


def type_of(node: Java) -> pa.DataType:
    return arrow_of(str(node.dataType().json()))


_TYPES: dict[str, pa.DataType] = {}


def arrow_of(json: str) -> pa.DataType:
    if json not in _TYPES:
        kind: DataType = _parse_datatype_json_string(json)
        if kind.simpleString().startswith(("interval", "variant", "char", "varchar")) or "collate" in json:
            raise Untranslatable(f"type {kind.simpleString()}")
        try:
            _TYPES[json] = arrow_type(kind)
        except Exception as error:
            raise Untranslatable(f"type {kind.simpleString()}") from error
    return _TYPES[json]


def value_of(value: Java, kind: Java) -> Any:
    """A value of Spark's own form, as Arrow takes it."""
    name = str(kind.typeName())
    if value is None:
        return None
    if name == "string":
        return str(value.toString()) if hasattr(value, "toString") else str(value)
    if name.startswith("decimal"):
        return Decimal(str(value.toString()))
    if name == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=int(value))
    if name.startswith("timestamp"):
        zone = dt.UTC if name == "timestamp" else None
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=int(value))
    if name in ("array", "struct", "map", "binary"):
        raise Untranslatable(f"a literal of type {name}")
    return value


def constant(expression: Expression, node: Java) -> Any:
    if expression.kind != "literal" or expression.option("value").as_py() is None:
        raise Untranslatable(f"{node.sql()}, not of a literal")
    return expression.option("value").as_py()


def refuse_try(node: Java) -> None:
    if str(node.evalMode().toString()) != "ANSI":
        raise Untranslatable(f"{node.sql()} without ANSI")
