"""Values in the registry's wire format, as JSON text for people to read.

0 | four bytes: the id of a schema | the value, as that schema says
"""

import base64
import io
import json
import math
import struct
import threading
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.errors import HeadwaterError
from headwater.registry.registry import Registry
from headwater.registry.words import AVRO, JSON

HEADER = struct.Struct(">bI")
SCHEMAS_KEPT_MAX = 200


class Decoder:
    """Safe to use from many threads. What it cannot read is None, never an error: who looks still sees the bytes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._schemas: dict[int, tuple[str, Any]] = {}

    def json_text(self, data: bytes) -> str | None:
        if len(data) <= HEADER.size or data[0] != 0:
            return None
        _, number = HEADER.unpack_from(data)
        found = self._schema(number)
        if found is None:
            return None
        kind, schema = found
        body = data[HEADER.size :]
        try:
            if kind == JSON:
                json.loads(body, parse_constant=_no_number)
                return body.decode("utf-8")  # as it was written, with every digit
            return json.dumps(_finite(_avro(body, schema)), ensure_ascii=False, default=_plain)
        except (ValueError, TypeError, LookupError, ArithmeticError, EOFError, RecursionError, struct.error):
            return None

    def _schema(self, number: int) -> tuple[str, Any] | None:
        with self._lock:
            found = self._schemas.get(number) or self._load(number)
            if found is not None:  # one that is not known yet may be registered later
                if len(self._schemas) >= SCHEMAS_KEPT_MAX:
                    self._schemas.clear()
                self._schemas[number] = found
            return found

    def _load(self, number: int) -> tuple[str, Any] | None:
        try:
            versions = self._registry.with_id(number)
        except HeadwaterError:
            return None
        schema = versions[0].schema
        if schema.kind == JSON:
            return JSON, None
        if schema.kind != AVRO or schema.references:
            return None
        try:
            from fastavro import parse_schema

            return AVRO, parse_schema(json.loads(schema.text))
        except (ImportError, ValueError, LookupError, TypeError):
            return None


def _avro(body: bytes, schema: Any) -> Any:
    from fastavro import schemaless_reader

    return schemaless_reader(io.BytesIO(body), schema)


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _finite(value: Any) -> Any:
    """The same, with a text where JSON has no number.

    >>> _finite({"share": [float("nan"), 0.5]})
    {'share': ['NaN', 0.5]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


def _plain(value: object) -> object:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
    return repr(value)
