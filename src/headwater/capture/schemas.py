"""JSON Schema of the records of a captured table: registered, so that readers can look it up. Pure.

The row of a table is described where its types are known (postgresql/described_types.py) and kept in the note
`schema/…` under ROW. Here an envelope is put around it. Records carry no id of a schema: a version says what the table
was when it was made, and the subjects `<topic>-value` and `<topic>-key` have one for each.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headwater.capture.notes import Note

ROW = "row"
COLUMN_TYPE = "x-headwater-type"
"""In the description of a column: its type as flows write it, where JSON Schema has no word for it."""

DIALECT = "http://json-schema.org/draft-07/schema#"
SCHEMA_NOTE = "schema/"

Described = dict[str, Any]


class Registration(NamedTuple):
    subject: str
    text: str


def registrations(notes: Mapping[str, Note | None]) -> Iterator[Registration]:
    """Returns the registrations for notes of a source, older versions first."""
    found = [note for what, note in notes.items() if what.startswith(SCHEMA_NOTE) and note and note.get(ROW)]
    for note in sorted(found, key=lambda one: (str(one["topic"]), int(str(one["version"])))):
        row: Described = note[ROW]  # type: ignore[assignment]
        topic, key = str(note["topic"]), list(map(str, note["key"]))  # type: ignore[call-overload]
        yield Registration(f"{topic}-value", json.dumps(envelope_of(row), ensure_ascii=False))
        if key:
            yield Registration(f"{topic}-key", json.dumps(key_of(row, key), ensure_ascii=False))


def row_of(columns: Iterable[tuple[str, Described]], key: Iterable[str]) -> Described:
    """
    >>> row_of([("id", {"type": "integer"}), ("name", {"type": "string"})], ["id"])["properties"]["name"]
    {'type': ['string', 'null']}
    """
    known, required = dict(columns), list(key)
    properties = {name: one if name in required else nullable(one) for name, one in known.items()}
    return {"type": "object", "properties": properties, "required": required}


def nullable(described: Described) -> Described:
    types = described["type"]
    return {**described, "type": [*([types] if isinstance(types, str) else types), "null"]}


def key_of(row: Described, key: Iterable[str]) -> Described:
    names = list(key)
    properties = {name: row["properties"][name] for name in names}
    return {"$schema": DIALECT, "type": "object", "properties": properties, "required": names}


def envelope_of(row: Described) -> Described:
    """`before` has only the columns that the source sent of the old row; it may lack any."""
    before = {**row, "required": []}
    whole = {"type": "integer"}
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {
            "before": {"oneOf": [{"type": "null"}, before]},
            "after": {"oneOf": [{"type": "null"}, row]},
            "source": {"type": "object"},
            "transaction": {"type": ["object", "null"]},
            "op": {"type": "string", "enum": ["c", "u", "d", "r", "t"]},
            "ts_ms": whole, "ts_us": whole, "ts_ns": whole,
        },
        "required": ["before", "after", "source", "op", "ts_ms"],
    }  # fmt: skip
