"""An expression as the user wrote it, before anything is known of the columns it reads (pure).

SQL text (sql_text.py) and columns made in Python (local/columns.py) both become this; resolution.py finds the
types, casts and functions that Spark would.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Reference:
    """A column, and fields within it."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    value: Any
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function or an operator, by the name that Spark's SQL has for it."""

    name: str
    inputs: "tuple[Unresolved, ...]"
    distinct: bool = False
    condition: "Unresolved | None" = None
    """Of an aggregate: `filter (where ...)`."""
    ignore_nulls: bool = False


@dataclass(frozen=True)
class CastTo:
    """`type` is Spark's name of it, or an Arrow type."""

    input: "Unresolved"
    type: str | pa.DataType
    lenient: bool = False


@dataclass(frozen=True)
class Named:
    input: "Unresolved"
    name: str


@dataclass(frozen=True)
class Item:
    """A field of a struct by its name."""

    input: "Unresolved"
    key: str


@dataclass(frozen=True)
class Star:
    """All columns, or all fields of one."""

    parts: tuple[str, ...] = ()


Unresolved = Reference | Constant | Call | CastTo | Named | Item | Star


def name_of(node: Unresolved) -> str | None:
    """What Spark calls the result; None where that is Spark's to say."""
    match node:
        case Named(_, name):
            return name
        case Reference(parts):
            return parts[-1]
        case Item(_, key):
            return key
    return None
