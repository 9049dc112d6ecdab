"""Values of MariaDB's types, from the text that a query answers with to JSON. Pure.

For copies. A value must be emitted as it is from the log (values.py), so what a query would round or dress up is asked
for otherwise: see `selected`.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from uuid import UUID

from headwater.capture.mariadb_binlog.charsets import base64
from headwater.capture.mariadb_binlog.values import bits_text, float_text
from headwater.capture.postgresql.types import number, plain, text

Convert = Callable[[bytes], bytes]

INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
BYTES = (
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
    "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip
COMPRESSED = "COMPRESSED"
SHOWN = ("inet4", "inet6", "uuid", "date", "time")


class ColumnFacts(NamedTuple):
    """A column as the catalog has it now."""

    name: str
    type: str
    """Without lengths, as `varchar`."""

    full_type: str = ""
    bits: int = 0


def converter(column: ColumnFacts) -> Convert | None:
    """Returns the function that makes JSON of a value; None for a type that captures cannot read."""
    kind = column.type
    if COMPRESSED in column.full_type:
        return None
    if kind in INTEGERS or kind == "year":
        return integer
    if kind in TEXTS:
        return text
    if kind in BYTES:
        return base64
    if kind in SHOWN:
        return plain
    if kind == "bit":
        return lambda value: bits_text(int(value), column.bits)
    return {
        "float": lambda value: float_text(float(value)),
        "double": lambda value: repr(float(value)).encode(),
        "decimal": decimal,
        "datetime": lambda value: b'"%b"' % value.replace(b" ", b"T"),
        "timestamp": lambda value: b'"%bZ"' % value.replace(b" ", b"T"),
    }.get(kind)


def integer(value: bytes) -> bytes:
    """Without the zeros in front that ZEROFILL adds.

    >>> integer(b"0042"), integer(b"0000"), integer(b"-7")
    (b'42', b'0', b'-7')
    """
    return (value.lstrip(b"0") or b"0") if value[:1] == b"0" else number(value)


def decimal(value: bytes) -> bytes:
    """
    >>> decimal(b"0001.50"), decimal(b"-0.50")
    (b'"1.50"', b'"-0.50"')
    """
    whole, point, rest = value.partition(b".")
    if whole[:1] == b"0":
        whole = whole.lstrip(b"0") or b"0"
    return plain(whole + point + rest)


def selected(column: ColumnFacts) -> str:
    """How to ask for a column.

    >>> selected(ColumnFacts("a`b", "float")), selected(ColumnFacts("name", "varchar"))
    ('CAST(`a``b` AS DOUBLE)', '`name`')
    """
    name = quoted(column.name)
    if column.type in ("float", "double"):
        return f"CAST({name} AS DOUBLE)"  # as itself it would show six digits of a float
    return f"{name} + 0" if column.type == "bit" else name


def ordered(column: ColumnFacts) -> str:
    """By what a key's column is ordered and compared."""
    name = quoted(column.name)
    if column.type in ("enum", "set"):
        # Ordered by number and compared by text otherwise.
        return f"CAST({name} AS CHAR) COLLATE utf8mb4_bin"
    return name


def literal(column: ColumnFacts, value: bytes) -> str:
    """A value of a key as SQL.

    >>> literal(ColumnFacts("id", "int"), b"42"), literal(ColumnFacts("id", "varchar"), b"a")
    ('42', "_utf8mb4 X'61'")
    """
    if column.type in (*INTEGERS, "decimal", "float", "double", "bit", "year"):
        return value.decode("ascii")
    if column.type in BYTES:
        return f"X'{value.hex()}'"
    return f"_utf8mb4 X'{value.hex()}'"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- types that the log knows only as bytes ----------------------------------------------------------------------------


def uuid(value: bytes) -> bytes:
    return b'"%b"' % str(UUID(bytes=value.ljust(16, b"\0"))).encode()


def inet4(value: bytes) -> bytes:
    return b'"%b"' % str(IPv4Address(value.ljust(4, b"\0"))).encode()


def inet6(value: bytes) -> bytes:
    """With the last four bytes as an address of version 4 where that is what they are, as MariaDB shows them."""
    raw = value.ljust(16, b"\0")
    if raw[:10] == bytes(10) and raw[10:12] in (b"\0\0", b"\xff\xff") and raw[12:14] != b"\0\0":
        prefix = "::ffff:" if raw[10] else "::"
        return b'"%b"' % (prefix + str(IPv4Address(raw[12:]))).encode()
    return b'"%b"' % str(IPv6Address(raw)).encode()


AS_TEXT: dict[str, Convert] = {"uuid": uuid, "inet4": inet4, "inet6": inet6}
