"""Columns of a table for the registered schema of its changes: those of the row that stands in `after`. Pure.

Captures say beside each column which type it has here, because JSON Schema has no word for most; schemas of others are
read as any JSON Schema is.
"""

import json
from collections.abc import Mapping
from typing import Any

from headwater.errors import InvalidSchema
from headwater.flow.formats.schema import Schema, parse_ddl, quoted
from headwater.flow.registry.json_types import schema_of_json

COLUMN_TYPE = "x-headwater-type"


def schema_of_changes(text: str, references: Mapping[str, str]) -> Schema:
    row = _row(json.loads(text))
    columns: dict[str, Any] = row.get("properties") or {}
    if columns and all(isinstance(one, dict) and COLUMN_TYPE in one for one in columns.values()):
        return parse_ddl(", ".join(f"{quoted(name)} {one[COLUMN_TYPE]}" for name, one in columns.items()))
    return schema_of_json(json.dumps(row), references)


def _row(schema: Any) -> dict[str, Any]:
    after = schema.get("properties", {}).get("after") if isinstance(schema, dict) else None
    if isinstance(after, dict):
        branches = [one for word in ("oneOf", "anyOf") for one in after.get(word, [])]
        for one in [after, *branches]:
            if isinstance(one, dict) and one.get("properties"):
                return one
    raise InvalidSchema(
        "the registered schema has no row under `after`, and is none of changes",
        "Give the columns yourself, as a schema in DDL.",
    )
