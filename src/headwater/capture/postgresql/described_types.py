"""JSON Schema of a value, by its type: the same decisions as in types.py, for a schema. Pure."""

from collections.abc import Mapping
from typing import Any

from headwater.capture.postgresql.types import DEPTH_MAX, TypeFacts
from headwater.capture.schemas import COLUMN_TYPE, Described, nullable

DECIMAL_DIGITS_MAX = 38
HEADER_BYTES = 4
"""Of a modifier of numeric: precision and scale follow it, in sixteen bits each (the scale in eleven)."""

SIMPLE: dict[str, tuple[Any, str]] = {
    "bool": ("boolean", "boolean"),
    "int2": ("integer", "smallint"),
    "int4": ("integer", "int"),
    "int8": ("integer", "bigint"),
    "oid": ("integer", "bigint"),
    "float4": (["number", "string"], "float"),
    "float8": (["number", "string"], "double"),
    "bytea": ("string", "binary"),
    "date": ("string", "date"),
    "timestamp": ("string", "timestamp_ntz"),
    "timestamptz": ("string", "timestamp"),
}
"""Of types that are not just text: what JSON has, and the column of a flow. What is not a number is a string."""


def described(type: int, modifier: int, catalog: Mapping[int, TypeFacts], *, depth: int = 0) -> Described:
    """
    >>> described(1700, 10 << 16 | 2 + 4, {1700: TypeFacts("numeric")})
    {'type': 'string', 'x-headwater-type': 'decimal(10,2)'}
    """
    facts = catalog.get(type)
    if facts is None or depth > DEPTH_MAX:
        return _text()
    match facts.kind:
        case "domain":
            base = modifier if facts.modifier < 0 else facts.modifier
            return described(facts.below, base, catalog, depth=depth + 1)
        case "array":
            below = described(facts.below, modifier, catalog, depth=depth + 1)
            return {"type": "array", COLUMN_TYPE: f"array<{below[COLUMN_TYPE]}>"}
        case "composite":
            inner = {name: described(field, mod, catalog, depth=depth + 1) for name, field, mod in facts.fields}
            column = ", ".join(f"{_quoted(name)}: {one[COLUMN_TYPE]}" for name, one in inner.items())
            if not inner:
                return _text()
            properties = {name: nullable(one) for name, one in inner.items()}
            return {"type": ["object", "string"], "properties": properties, COLUMN_TYPE: f"struct<{column}>"}
    if facts.name == "bit" and modifier == 1:
        return {"type": "boolean", COLUMN_TYPE: "boolean"}
    if facts.name == "numeric":
        return _numeric(modifier)
    if facts.name in SIMPLE:
        json_type, column = SIMPLE[facts.name]
        return {"type": json_type, COLUMN_TYPE: column}
    return _text()


def _text() -> Described:
    return {"type": "string", COLUMN_TYPE: "string"}


def _numeric(modifier: int) -> Described:
    """Without a precision, or with one that no decimal has, it is the text that it is in the record."""
    if modifier < HEADER_BYTES:
        return _text()
    precision, scale = (modifier - HEADER_BYTES) >> 16 & 0xFFFF, (modifier - HEADER_BYTES) & 0x7FF
    if precision > DECIMAL_DIGITS_MAX or scale > precision:
        return _text()
    return {"type": "string", COLUMN_TYPE: f"decimal({precision},{scale})"}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
