"""Avro values whose schemas are in a registry."""

import json
from typing import Any

import pyarrow as pa
from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from headwater.errors import InvalidFormat, UnknownSchema
from headwater.flow.formats.avro_decoding import HOSTILE, read_record, refuse_endless
from headwater.flow.formats.decoding import Decoded, Decoder
from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import Schema
from headwater.flow.registry.client import Found, RegistryClient, client_of
from headwater.flow.registry.frames import reasons_of_frames
from headwater.flow.registry.framing import HEAD_BYTES, unframe

UNREADABLE: tuple[type[Exception], ...] = (SchemaParseException, UnknownType, InvalidFormat, *HOSTILE)


def registered_decoder(schema: Schema, where: str, reader: str | None) -> Decoder:
    return RegisteredAvro(schema, client_of(where), None if reader is None else int(reader))


def parsed(found: Found) -> Any:
    """As fastavro wants it. InvalidFormat or what fastavro raises if it is no Avro."""
    if found.kind != "AVRO":
        raise InvalidFormat(f"it is of kind {found.kind}")
    named: dict[str, Any] = {}
    for _, text in found.references:
        parse_schema(json.loads(text), named_schemas=named)
    schema = parse_schema(json.loads(found.text), named_schemas=named)
    refuse_endless(schema)
    return schema


class RegisteredAvro:
    def __init__(self, schema: Schema, client: RegistryClient, reader: int | None) -> None:
        self._schema, self._client, self._reader_id = schema, client, reader
        self._reader: Any = None
        self._writers: dict[int, Any] = {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        framed = unframe(values)
        reasons = reasons_of_frames(values, framed, self._judged)
        ids = framed.ids.tolist()
        rows = [
            reasons.get(place) or self._row(value, number)
            for place, (value, number) in enumerate(zip(values.to_pylist(), ids, strict=True))
        ]
        return decoded_rows(self._schema, rows)

    def _row(self, value: bytes, number: int) -> Row:
        # Read by its own schema where that is the reader's: resolving what is the same costs as much as reading it.
        reader = None if number == self._reader_id else self._reader
        return read_record(value, HEAD_BYTES, self._writers[number], reader)

    def _judged(self, number: int) -> str:
        if self._reader_id is not None and self._reader is None:
            self._reader = parsed(self._client.with_id(self._reader_id))
        if number in self._writers:
            return ""
        try:
            self._writers[number] = parsed(self._client.with_id(number))
        except UnknownSchema:
            return f"schema id {number} is not in the registry at {self._client.shown}"
        except UNREADABLE as error:
            return f"the schema with id {number} is no Avro schema that can be read: {error}"
        return ""
