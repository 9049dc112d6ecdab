"""Schemas that were understood, kept so that each is read once. Safe to use from many threads.

The lock here is held only to look something up or to put it down: reading a text, which may take a while, keeps no
request waiting.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

from headwater.errors import InvalidSchemaText
from headwater.registry.kinds import kind_called
from headwater.registry.words import Parsed, Reference, SchemaText

REFERENCE_DEPTH_MAX = 30
REFERENCES_MAX = 1_000
"""That a schema may be built on, with all that these are built on."""

KEPT_MAX = 1_000
SCHEMA_BYTES_MAX = 1024**2


class ParsedSchemas:
    def __init__(self, referred: Callable[[Reference], SchemaText]) -> None:
        """`referred` finds what a reference means; InvalidSchemaText if it means nothing."""
        self._referred = referred
        self._lock = threading.Lock()
        self._kept: OrderedDict[SchemaText, Parsed] = OrderedDict()

    def get(self, schema: SchemaText) -> Parsed:
        """InvalidSchemaText if it is none, or if something that it refers to is not here."""
        return self._get(schema, 0, {})

    def fingerprint(self, schema: SchemaText) -> str:
        """Equal for schemas that mean the same, however they are written."""
        parsed = self.get(schema)
        beneath = sorted(schema.references)
        return hashlib.sha256(repr((schema.kind, parsed.canonical, beneath)).encode()).hexdigest()

    def _get(self, schema: SchemaText, depth: int, met: dict[SchemaText, Parsed]) -> Parsed:
        """`met` are those that this very schema is built on: however they refer to each other, each is read once."""
        found = met.get(schema) or self._look_up(schema)
        if found is None:
            found = self._read(schema, depth, met)
        met[schema] = found
        return found

    def _look_up(self, schema: SchemaText) -> Parsed | None:
        with self._lock:
            if schema in self._kept:
                self._kept.move_to_end(schema)
            return self._kept.get(schema)

    def _read(self, schema: SchemaText, depth: int, met: dict[SchemaText, Parsed]) -> Parsed:
        if depth > REFERENCE_DEPTH_MAX:
            raise InvalidSchemaText(f"references go deeper than {REFERENCE_DEPTH_MAX}")
        if len(met) + len(schema.references) > REFERENCES_MAX:
            raise InvalidSchemaText(f"the schema is built on more than {REFERENCES_MAX} others")
        if len(schema.text) > SCHEMA_BYTES_MAX:
            raise InvalidSchemaText(f"a schema may have {SCHEMA_BYTES_MAX:,} characters, and this has more")
        beneath = {said.name: self._get(self._referred(said), depth + 1, met) for said in schema.references}
        try:
            parsed = kind_called(schema.kind).parse(schema.text, beneath)
        except RecursionError:
            raise InvalidSchemaText("the schema is nested too deeply") from None
        with self._lock:
            self._kept[schema] = parsed
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return parsed
