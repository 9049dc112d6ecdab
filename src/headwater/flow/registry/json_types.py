"""Columns for the properties of a JSON schema. Pure.

A property is a column that may be null unless it is required. What may be several things at once, or anything, is text
for which there is no column: such a schema is refused with the place, and the user gives the columns.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidSchema
from headwater.flow.formats.schema import Field, Schema

FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
HINT = "Give the columns yourself, as a schema in DDL, and leave this one out."
DEPTH_MAX = 50
CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def schema_of_json(text: str, references: Mapping[str, str]) -> Schema:
    types = _Types(json.loads(text), {name: json.loads(other) for name, other in references.items()})
    root, _ = types.followed(types.root, types.root)
    if not isinstance(root, dict) or not root.get("properties"):
        raise InvalidSchema("the registered schema has no properties, and columns are those of an object", HINT)
    return Schema(tuple(Field(*one) for one in types.fields(root, types.root, "", 0)))


class _Types:
    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self.root, self._others = root, others

    def followed(self, node: Any, document: Any) -> tuple[Any, Any]:
        for _ in range(DEPTH_MAX):
            if not isinstance(node, dict) or "$ref" not in node:
                return node, document
            name, _, pointer = str(node["$ref"]).partition("#")
            if name:
                document = self._others.get(name) or next(
                    (other for other in self._others.values() if other.get("$id") == name), None
                )
            node = _pointed(document, pointer)
        return node, document

    def fields(self, node: Any, document: Any, path: str, depth: int) -> list[tuple[str, pa.DataType, bool]]:
        required = node.get("required") or []
        found = []
        for name, one in node["properties"].items():
            kind, nullable = self._column(one, document, f"{path}.{name}".lstrip("."), depth + 1)
            found.append((name, kind, nullable or name not in required))
        return found

    def _column(self, node: Any, document: Any, path: str, depth: int) -> tuple[pa.DataType, bool]:
        node, document = self.followed(node, document)
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"property {path} is inside itself, for which no column is deep enough", HINT)
        if not isinstance(node, dict):
            raise InvalidSchema(f"property {path} may be anything, for which there is no column", HINT)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._choice(node[word], document, path, depth)
        said = node.get("type")
        types = [said] if isinstance(said, str) else list(said or _types_of_values(node))
        others = [one for one in types if one != "null"]
        if others == ["integer", "number"] or others == ["number", "integer"]:
            others = ["number"]
        if len(others) != 1:
            what = f"may be {' or '.join(others)}" if others else "may be anything"
            raise InvalidSchema(f"property {path} {what}, and a column has one type", HINT)
        return self._single(others[0], node, document, path, depth), "null" in types

    def _choice(self, branches: list[Any], document: Any, path: str, depth: int) -> tuple[pa.DataType, bool]:
        """One thing or null is a column that may be null; more is none."""
        others = [one for one in branches if one != {"type": "null"}]
        if len(others) != 1:
            raise InvalidSchema(f"property {path} may be one of {len(others)} things, and a column has one type", HINT)
        kind, nullable = self._column(others[0], document, path, depth + 1)
        return kind, nullable or len(others) < len(branches)

    def _single(self, name: str, node: Any, document: Any, path: str, depth: int) -> pa.DataType:
        match name:
            case "string":
                return FORMATS.get(node.get("format"), pa.string())
            case "boolean":
                return pa.bool_()
            case "integer":
                return pa.int32() if node.get("connect.type") in ("int8", "int16", "int32") else pa.int64()
            case "number":
                return _number(node)
            case "array":
                element = self._column(node.get("items", True), document, f"{path}[]", depth + 1)[0]
                return pa.list_(pa.field("element", element))
            case "object":
                return self._object(node, document, path, depth)
        raise InvalidSchema(f"property {path} is of type {name}, for which there is no column", HINT)

    def _object(self, node: Any, document: Any, path: str, depth: int) -> pa.DataType:
        if node.get("properties"):
            inner = self.fields(node, document, path, depth)
            return pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in inner])
        values = node.get("additionalProperties")
        if isinstance(values, dict):
            return pa.map_(pa.string(), pa.field("value", self._column(values, document, f"{path}{{}}", depth + 1)[0]))
        raise InvalidSchema(f"property {path} is an object of which nothing is said", HINT)


def _number(node: Mapping[str, Any]) -> pa.DataType:
    if node.get("title") == CONNECT_DECIMAL:
        said = node.get("connect.parameters") or {}
        return pa.decimal128(int(said.get("connect.decimal.precision", 38)), int(said.get("scale", 0)))
    return pa.float64()


def _types_of_values(node: Mapping[str, Any]) -> list[str]:
    """Where only the values are listed: their types."""
    values = node["enum"] if "enum" in node else [node["const"]] if "const" in node else []
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return sorted({names.get(type(value), "object") for value in values})


def _pointed(document: Any, pointer: str) -> Any:
    node = document
    for step in pointer.strip("/").split("/") if pointer.strip("/") else ():
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    if node is None:
        raise InvalidSchema(f"the registered schema refers to #{pointer}, which is not there", HINT)
    return node
