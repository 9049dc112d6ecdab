"""Columns for the fields of an Avro record. Pure.

A field that may be null is a column that may be; a union of more is refused, because a column has one type.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidSchema
from headwater.flow.formats.schema import Field, Schema

PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
UTC_TIME, LOCAL_TIME = pa.timestamp("us", "UTC"), pa.timestamp("us")
LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": UTC_TIME,
    "timestamp-micros": UTC_TIME,
    "local-timestamp-millis": LOCAL_TIME,
    "local-timestamp-micros": LOCAL_TIME,
    "uuid": pa.string(),
}
DIGITS_MAX = 38
HINT = "Give the columns yourself, as a schema in DDL, and leave this one out."


def schema_of_avro(text: str, references: Mapping[str, str]) -> Schema:
    """The columns of a record; InvalidSchema for what no column can hold."""
    types = _Types()
    for other in references.values():
        types.named(json.loads(other), "")
    root = types.named(json.loads(text), "")
    if not isinstance(root, dict) or root.get("type") not in ("record", "error"):
        raise InvalidSchema("the registered schema is not a record, and columns are the fields of one", HINT)
    return Schema(tuple(Field(one["name"], *types.column(one["type"], one["name"], ())) for one in root["fields"]))


class _Types:
    def __init__(self) -> None:
        self._by_name: dict[str, Any] = {}

    def named(self, said: Any, space: str) -> Any:
        """Note every type with a name, and write names in full where they are used."""
        if isinstance(said, list):
            return [self.named(one, space) for one in said]
        if isinstance(said, str):
            return said if said in PRIMITIVES or said == "null" or "." in said or not space else f"{space}.{said}"
        if said["type"] in ("record", "error", "enum", "fixed"):
            name, space = _full_name(said, space)
            self._by_name[name] = full = {**said, "name": name}
            if "fields" in said:
                full["fields"] = [{**one, "type": self.named(one["type"], space)} for one in said["fields"]]
            return full
        inner = {key: self.named(said[key], space) for key in ("items", "values") if key in said}
        if isinstance(said["type"], dict | list):
            return self.named(said["type"], space)
        return {**said, **inner}

    def column(self, said: Any, path: str, inside: tuple[str, ...]) -> tuple[pa.DataType, bool]:
        """Type, and whether it may be null."""
        if isinstance(said, list):
            others = [one for one in said if one != "null"]
            if len(others) != 1:
                raise InvalidSchema(f"field {path} is a union of {len(others)} types, and a column has one", HINT)
            return self.column(others[0], path, inside)[0], "null" in said
        return self._single(said, path, inside), False

    def _single(self, said: Any, path: str, inside: tuple[str, ...]) -> pa.DataType:
        if isinstance(said, str):
            if said in PRIMITIVES:
                return PRIMITIVES[said]
            if said in inside:
                raise InvalidSchema(f"field {path} is a {said} inside itself, for which no column is deep enough", HINT)
            said = self._by_name.get(said) or self._by_name.get(said.rpartition(".")[2], {"type": said})
        kind = said["type"]
        if kind == "array":
            return pa.list_(pa.field("element", self.column(said["items"], f"{path}[]", inside)[0]))
        if kind == "map":
            return pa.map_(pa.string(), pa.field("value", self.column(said["values"], f"{path}{{}}", inside)[0]))
        if kind in ("record", "error"):
            return self._struct(said, path, (*inside, said["name"]))
        return _plain(said, path)

    def _struct(self, said: Mapping[str, Any], path: str, inside: tuple[str, ...]) -> pa.DataType:
        if not said["fields"]:
            raise InvalidSchema(f"field {path} is a record without fields, and Spark has no such struct", HINT)
        return pa.struct([
            pa.field(one["name"], kind, nullable=nullable)
            for one in said["fields"]
            for kind, nullable in [self.column(one["type"], f"{path}.{one['name']}", inside)]
        ])  # fmt: skip


def _plain(said: Mapping[str, Any], path: str) -> pa.DataType:
    kind, logical = said["type"], said.get("logicalType")
    if kind == "enum":
        return pa.string()
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = said.get("precision"), said.get("scale", 0)
        if not isinstance(precision, int) or not 1 <= precision <= DIGITS_MAX or not 0 <= scale <= precision:
            raise InvalidSchema(f"field {path} is a decimal({precision},{scale}), which Spark does not have", HINT)
        return pa.decimal128(precision, scale)
    if kind == "fixed":
        return pa.binary()
    if logical in LOGICAL and (logical, kind) != ("date", "long"):
        return LOGICAL[logical]
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    raise InvalidSchema(f"field {path} is of type {kind}, for which there is no column", HINT)


def _full_name(said: Mapping[str, Any], space: str) -> tuple[str, str]:
    name = said["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = said.get("namespace", space) or ""
    return (f"{space}.{name}" if space else name), space
