"""The types a column of a view can have, as plain data that is kept beside the view. Pure.

A simple type is a word of Spark's DDL; a nested one is an object of one entry:

    "long"  "decimal(12,2)"  {"array": "string"}  {"map": ["string", "long"]}  {"struct": [["start", "timestamp"], …]}
"""

import re

import pyarrow as pa

from headwater.errors import UnstorableValue

SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NAMES = {type: name for name, type in SIMPLE.items()}


def plain(type: pa.DataType) -> pa.DataType:
    """The one form in which a type is stored: large and encoded variants hold the same values as the plain ones.

    >>> plain(pa.large_list(pa.dictionary(pa.int8(), pa.large_string())))
    ListType(list<element: string>)
    """
    if pa.types.is_dictionary(type):
        return plain(type.value_type)
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type):
        return pa.binary()
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", "UTC" if type.tz else None)
    if pa.types.is_decimal(type):
        return pa.decimal128(type.precision, type.scale) if type.precision <= 38 else type
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(pa.field("element", plain(type.value_type)))
    if pa.types.is_map(type):
        return pa.map_(plain(type.key_type), plain(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, plain(field.type)) for field in type])
    return type


def nested(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_map(type) or pa.types.is_struct(type))


def to_words(type: pa.DataType) -> object:
    """Plain data for a type; UnstorableValue for a type that no store supports.

    >>> to_words(pa.list_(pa.decimal128(12, 2)))
    {'array': 'decimal(12,2)'}
    """
    if type in NAMES:
        return NAMES[type]
    if pa.types.is_decimal128(type) and type.scale >= 0:
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_list(type):
        return {"array": to_words(type.value_type)}
    if pa.types.is_map(type):
        return {"map": [to_words(type.key_type), to_words(type.item_type)]}
    if pa.types.is_struct(type):
        return {"struct": [[field.name, to_words(field.type)] for field in type]}
    raise UnstorableValue(f"a view cannot store the type {type}", "Cast it, or leave it out.")


def from_words(words: object) -> pa.DataType:
    """
    >>> from_words({"map": ["string", "long"]})
    MapType(map<string, int64>)
    """
    match words:
        case str() if words in SIMPLE:
            return SIMPLE[words]
        case str() if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", words):
            return pa.decimal128(int(found[1]), int(found[2]))
        case {"array": element}:
            return pa.list_(pa.field("element", from_words(element)))
        case {"map": [key, value]}:
            return pa.map_(from_words(key), from_words(value))
        case {"struct": [*fields]}:
            return pa.struct([pa.field(name, from_words(type)) for name, type in fields])
    raise UnstorableValue(f"{words!r} is not a type of a column")


def spoken(type: pa.DataType) -> str:
    """The type as one would declare it.

    >>> spoken(pa.struct([("tags", pa.list_(pa.string()))]))
    'struct<tags: array<string>>'
    """
    if pa.types.is_list(type):
        return f"array<{spoken(type.value_type)}>"
    if pa.types.is_map(type):
        return f"map<{spoken(type.key_type)}, {spoken(type.item_type)}>"
    if pa.types.is_struct(type):
        return f"struct<{', '.join(f'{field.name}: {spoken(field.type)}' for field in type)}>"
    return str(to_words(type))
