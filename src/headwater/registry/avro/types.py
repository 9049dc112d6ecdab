"""Avro schemas as a tree. Records may contain themselves, so they are filled in after they are named."""

from dataclasses import dataclass, field
from typing import Any

NO_DEFAULT = object()
"""Where a default could stand and none does: null is one."""

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(eq=False)
class Type:
    """What all types have; `properties` are attributes that Avro itself gives no meaning."""

    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale, where the bytes are a number of them."""
        said = self.properties
        if said.get("logicalType") != "decimal" or not isinstance(said.get("precision"), int):
            return None
        return said["precision"], said.get("scale", 0)


@dataclass(eq=False)
class Primitive(Type):
    name: str = "null"


@dataclass(eq=False)
class Array(Type):
    items: Type = field(default_factory=Type)


@dataclass(eq=False)
class Map(Type):
    values: Type = field(default_factory=Type)


@dataclass(eq=False)
class Union(Type):
    branches: list[Type] = field(default_factory=list)


@dataclass(eq=False)
class Named(Type):
    name: str = ""
    """With its namespace."""
    aliases: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class Fixed(Named):
    size: int = 0


@dataclass(eq=False)
class Enum(Named):
    symbols: tuple[str, ...] = ()
    default: object = NO_DEFAULT


@dataclass(eq=False)
class Field:
    name: str
    type: Type
    default: object = NO_DEFAULT
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Record(Named):
    kind: str = "record"
    fields: list[Field] = field(default_factory=list)


def label(kind: Type) -> str:
    """What a sentence calls a type.

    >>> label(Array(items=Primitive(name="int")))
    'array'
    """
    if isinstance(kind, Primitive):
        return kind.name
    if isinstance(kind, Named):
        return f"{type(kind).__name__.lower()} {kind.name}"
    return type(kind).__name__.lower()
