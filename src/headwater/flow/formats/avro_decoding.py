"""Avro, one record in each value, without a container. fastavro reads it row by row, about 200,000 a second.

The writer's schema is given as JSON (`avro_schema`), or as one JSON object from id to schema (`schema_ids`) for values
in Confluent's framing:

    0  uint8   0
    1  uint32  id of the schema, big-endian
    5  ...     the record

With `registry` these schemas are asked for by their ids, once each (flow/registry). `reader` is then the id of the
schema by which all values are read, whatever schema wrote them: Avro's resolution fills in defaults and widens numbers.

Fields are taken by name; what the writer's schema has and ours has not is skipped.
"""

import json
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import Schema, nearest

OPTIONS = ("avro_schema", "schema_ids", "registry", "reader")
FRAME = struct.Struct(">BI")

# What fastavro lets through when the bytes are not what the schema says.
HOSTILE: tuple[type[Exception], ...] = (EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
HOSTILE += (StopIteration, struct.error, MemoryError, RecursionError, AssertionError)


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    if "registry" in options:
        from headwater.flow.registry.avro_reading import registered_decoder

        return registered_decoder(schema, options["registry"], options.get("reader"))
    if len(options) != 1:
        way_out = "Or say registry, where they are kept."
        raise InvalidFormat("format avro needs one of the options avro_schema and schema_ids", way_out)
    name, text = next(iter(options.items()))
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidFormat(f"option {name} of format avro is not JSON: {error}") from None
    if name == "avro_schema":
        return AvroDecoder(schema, _parsed(schema, given), {})
    if not isinstance(given, dict) or not all(key.isdecimal() for key in given):
        raise InvalidFormat("option schema_ids of format avro is not an object from id to schema", 'As {"7": {...}}.')
    return AvroDecoder(schema, None, {int(key): _parsed(schema, each) for key, each in given.items()})


def _parsed(schema: Schema, given: Any) -> Any:
    try:
        # A schema inside a text inside JSON is what a registry answers.
        parsed = parse_schema(json.loads(given) if isinstance(given, str) and given.startswith("{") else given)
    except (SchemaParseException, UnknownType, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidFormat(
            f"the Avro schema cannot be read: {error}", "Check it with the program that writes."
        ) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise InvalidFormat("the Avro schema is not a record, and columns are the fields of one")
    names = [field["name"] for field in parsed["fields"]]
    for name in schema.names:
        if name not in names:
            raise InvalidFormat(f'the Avro schema has no field "{name}"', nearest(name, names))
    refuse_endless(parsed)
    return parsed


def refuse_endless(given: Any) -> None:
    """An array of nothing: eight bytes could claim a billion elements, and reading them would never end."""
    if isinstance(given, list):
        for each in given:
            refuse_endless(each)
    elif isinstance(given, dict):
        if given.get("type") == "array" and _weightless(given.get("items")):
            raise InvalidFormat("the Avro schema has an array whose elements take no bytes")
        for key in ("type", "items", "values", "fields"):
            refuse_endless(given.get(key))


def _weightless(given: Any) -> bool:
    match given:
        case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
            return True
        case {"type": "record" | "error", "fields": list(fields)}:
            return all(_weightless(field["type"]) for field in fields)
    return False


class AvroDecoder:
    def __init__(self, schema: Schema, single: Any, by_id: Mapping[int, Any]) -> None:
        self._schema = schema
        self._single = single
        self._by_id = by_id

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decoded_rows(self._schema, [self._row(value) for value in values.to_pylist()])

    def _row(self, value: bytes | None) -> Row:
        if value is None:
            return NULL_VALUE
        writer, start = self._single, 0
        if writer is None:
            if len(value) < FRAME.size or value[0] != 0:
                return f"not Avro with a schema id: it begins with {shortened(value[:5].hex(' '))}"
            _, number = FRAME.unpack_from(value)
            writer, start = self._by_id.get(number), FRAME.size
            if writer is None:
                return f"schema id {number} is not among those given: {', '.join(map(str, sorted(self._by_id)))}"
        return read_record(value, start, writer, None)


def read_record(value: bytes, start: int, writer: Any, reader: Any) -> Row:
    """The record in a value from a place on. With a reader's schema, as that one says."""
    stream = BytesIO(value)
    stream.seek(start)
    try:
        row = schemaless_reader(stream, writer, reader)
    except HOSTILE as error:
        return f"not Avro of the given schema: {shortened(str(error) or 'the bytes end too early')}"
    if stream.tell() != len(value):
        return f"not Avro of the given schema: {len(value) - stream.tell()} bytes are left over"
    return row if isinstance(row, dict) else "not Avro of the given schema: it is not a record"
