"""JSON Schema of a value, by its type: the same decisions as in values.py, for a schema. Pure.

A type is known twice, as the log writes it and as the catalog does; both ways lead to the same words.
"""

import re
from typing import NamedTuple

from headwater.capture.mariadb_binlog import table_map as types
from headwater.capture.mariadb_binlog.charsets import BINARY, Charsets
from headwater.capture.mariadb_binlog.table_map import Column
from headwater.capture.mariadb_binlog.text_values import BYTES, INTEGERS, ColumnFacts
from headwater.capture.schemas import COLUMN_TYPE, Described

DECIMAL_DIGITS_MAX = 38


class Kind(NamedTuple):
    """A type as far as a schema describes it."""

    name: str
    unsigned: bool = False
    precision: int = 0
    """Digits; of times, those of a second's fraction."""

    scale: int = 0


TEXT, RAW = Kind("text"), Kind("bytes")
WHOLE = {
    "tinyint": ("tinyint", "smallint"), "smallint": ("smallint", "int"), "mediumint": ("int", "int"),
    "int": ("int", "bigint"), "bigint": ("bigint", "decimal(20,0)"), "year": ("int", "int"),
}  # fmt: skip
"""The column of a flow that holds all its values, with a sign and without."""

OTHERS = {
    "float": ("number", "float"), "double": ("number", "double"), "bytes": ("string", "binary"),
    "date": ("string", "date"), "datetime": ("string", "timestamp_ntz"), "timestamp": ("string", "timestamp"),
    "truth": ("boolean", "boolean"),
}  # fmt: skip
LOGGED = {
    types.TINY: "tinyint", types.SHORT: "smallint", types.INT24: "mediumint", types.LONG: "int",
    types.LONGLONG: "bigint", types.YEAR: "year", types.FLOAT: "float", types.DOUBLE: "double", types.DATE: "date",
    types.NEWDATE: "date", types.DATETIME2: "datetime", types.TIMESTAMP2: "timestamp", types.GEOMETRY: "bytes",
}  # fmt: skip
_DIGITS = re.compile(r"decimal\((\d+),(\d+)\)")
_FRACTION = re.compile(r"(?:datetime|timestamp)\((\d)\)")
TIMES = (types.DATETIME2, types.TIMESTAMP2)


def kind_of_log(column: Column, charsets: Charsets, *, shown: bool) -> Kind:
    """`shown`: the log has its bytes, and they are emitted as the text that MariaDB shows."""
    if column.type == types.DECIMAL:
        return Kind("decimal", False, column.meta & 0xFF, column.meta >> 8)
    if column.type == types.BIT:
        return Kind("truth") if 8 * (column.meta >> 8) + (column.meta & 0xFF) == 1 else TEXT
    if column.type in LOGGED:
        name = LOGGED[column.type]
        return Kind(name, column.unsigned and name in INTEGERS, column.meta if column.type in TIMES else 0)
    raw = column.type not in (types.ENUM, types.SET) and charsets.names.get(column.collation) == BINARY
    return RAW if raw and not shown and column.type != types.TIME2 else TEXT


def kind_of_catalog(column: ColumnFacts) -> Kind:
    """
    >>> kind_of_catalog(ColumnFacts("a", "decimal", "decimal(10,2) unsigned"))
    Kind(name='decimal', unsigned=False, precision=10, scale=2)
    """
    if found := _DIGITS.match(column.full_type):
        return Kind("decimal", False, int(found[1]), int(found[2]))
    if column.type == "bit":
        return Kind("truth") if column.bits == 1 else TEXT
    if column.type in BYTES:
        return RAW
    if column.type in WHOLE or column.type in OTHERS:
        fraction = _FRACTION.match(column.full_type)
        unsigned = column.type in INTEGERS and "unsigned" in column.full_type
        return Kind(column.type, unsigned, int(fraction[1]) if fraction else 0)
    return TEXT


def form(kind: Kind) -> str:
    """As what its values are written: two kinds with one form write the same value alike.

    >>> form(Kind("int")) == form(Kind("bigint", unsigned=True)), form(Kind("decimal", precision=9, scale=2))
    (True, 'decimal .2')
    """
    if kind.name in WHOLE:
        return "integer"
    fraction = kind.scale if kind.name == "decimal" else kind.precision
    return f"{kind.name} .{fraction}" if fraction else kind.name


def described(kind: Kind) -> Described:
    """
    >>> described(Kind("bigint", unsigned=True))
    {'type': 'integer', 'x-headwater-type': 'decimal(20,0)'}
    """
    if kind.name in WHOLE:
        return {"type": "integer", COLUMN_TYPE: WHOLE[kind.name][kind.unsigned]}
    if kind.name == "decimal" and kind.precision <= DECIMAL_DIGITS_MAX:
        return {"type": "string", COLUMN_TYPE: f"decimal({kind.precision},{kind.scale})"}
    json_type, column = OTHERS.get(kind.name, ("string", "string"))
    return {"type": json_type, COLUMN_TYPE: column}
