"""One way to write an Avro schema down: names in full, attributes in one order, nothing between them.

Unlike Avro's own canonical form it keeps what has a meaning for readers: defaults, aliases, documentation, and the
properties that say what a value stands for. Two schemas with the same text here are the same schema.
"""

import json
from typing import Any

from headwater.registry.avro.types import (
    NO_DEFAULT,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)


def canonical(schema: Type, *, known: frozenset[str] = frozenset()) -> str:
    """`known` are types of other schemas, which are written as their names."""
    return json.dumps(_written(schema, set(known)), separators=(",", ":"), ensure_ascii=False)


def _written(kind: Type, named: set[str]) -> Any:
    match kind:
        case Primitive():
            return {"type": kind.name} | _sorted(kind.properties) if kind.properties else kind.name
        case Union():
            return [_written(branch, named) for branch in kind.branches]
        case Array():
            return {"type": "array", "items": _written(kind.items, named)} | _sorted(kind.properties)
        case Map():
            return {"type": "map", "values": _written(kind.values, named)} | _sorted(kind.properties)
        case Named():
            if kind.name in named:
                return kind.name
            named.add(kind.name)
            return _definition(kind, named) | _sorted(kind.properties)
    raise AssertionError(kind)


def _definition(kind: Named, named: set[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"name": kind.name}
    if kind.aliases:
        said["aliases"] = list(kind.aliases)
    match kind:
        case Fixed():
            return {**said, "type": "fixed", "size": kind.size}
        case Enum():
            default = {} if kind.default is NO_DEFAULT else {"default": kind.default}
            return {**said, "type": "enum", "symbols": list(kind.symbols), **default}
        case Record():
            return {**said, "type": kind.kind, "fields": [_field(field, named) for field in kind.fields]}
    raise AssertionError(kind)


def _field(field: Field, named: set[str]) -> dict[str, Any]:
    said: dict[str, Any] = {"name": field.name, "type": _written(field.type, named)}
    if field.default is not NO_DEFAULT:
        said["default"] = field.default
    if field.aliases:
        said["aliases"] = list(field.aliases)
    return said | _sorted(field.properties)


def _sorted(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: properties[name] for name in sorted(properties)}
