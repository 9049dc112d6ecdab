"""Protobuf values whose schemas are in a registry.

A message is read by the reader's schema, which needs no other: fields are found by their numbers. The writer's schema
says only which message of its file a value is.
"""

import base64
from collections.abc import Mapping

import pyarrow as pa

from headwater.errors import InvalidFormat, InvalidSchema, UnknownSchema
from headwater.flow.formats.decoding import Decoded, Decoder, shortened
from headwater.flow.formats.protobuf_decoding import ProtobufDecoder, message_decoder
from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import Schema
from headwater.flow.registry.client import RegistryClient, client_of
from headwater.flow.registry.frames import reasons_of_frames
from headwater.flow.registry.framing import message_indexes, unframe
from headwater.flow.registry.protobuf_types import files_of, message_in

WRONG = (ValueError, LookupError, InvalidSchema)


def registered_decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    if "reader" not in options or "message" not in options:
        raise InvalidFormat("format protobuf with a registry needs the options reader and message")
    client = client_of(options["registry"])
    found = client.with_id(int(options["reader"]))
    files = base64.b64encode(files_of(found.text, dict(found.references))).decode()
    return RegisteredProtobuf(schema, client, message_decoder(schema, files, options["message"]), options["message"])


class RegisteredProtobuf:
    def __init__(self, schema: Schema, client: RegistryClient, inner: ProtobufDecoder, message: str) -> None:
        self._schema, self._client, self._inner, self._message = schema, client, inner, message
        self._files: dict[int, bytes] = {}
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        framed = unframe(values)
        reasons = reasons_of_frames(values, framed, self._judged)
        rows = [
            reasons.get(place) or self._row(body, number)
            for place, (body, number) in enumerate(zip(framed.bodies.to_pylist(), framed.ids.tolist(), strict=True))
        ]
        return decoded_rows(self._schema, rows)

    def _row(self, body: bytes, number: int) -> Row:
        try:
            indexes, start = message_indexes(body)
            name = self._name(number, indexes)
        except WRONG as error:
            return f"not Protobuf of schema {number}: {shortened(str(error))}"
        if name != self._message:
            return f"it is a {name}, where a {self._message} was expected"
        return self._inner.row(body[start:])

    def _name(self, number: int, indexes: tuple[int, ...]) -> str:
        if (number, indexes) not in self._names:
            self._names[number, indexes] = message_in(self._files[number], indexes)
        return self._names[number, indexes]

    def _judged(self, number: int) -> str:
        if number in self._files:
            return ""
        try:
            found = self._client.with_id(number)
        except UnknownSchema:
            return f"schema id {number} is not in the registry at {self._client.shown}"
        if found.kind != "PROTOBUF":
            return f"the schema with id {number} is of kind {found.kind}"
        try:
            self._files[number] = files_of(found.text, dict(found.references))
        except WRONG as error:
            return f"the schema with id {number} cannot be read: {error}"
        return ""
