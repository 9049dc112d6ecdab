"""Protobuf, one message in each value, by a description given as data: no generated code. Row by row.

`descriptor` is a FileDescriptorSet in base64 (protoc --include_imports --descriptor_set_out=FILE), `message` the full
name of the message; with `registry` the description is asked for (flow/registry). Columns are fields by name. A field
without presence has its default where it was not sent, one with presence (optional, a message) is null. Enumerations
are names in a string column and numbers in an integer one.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from headwater.errors import InvalidFormat
from headwater.flow.formats.decoding import NULL_VALUE, Decoded, Decoder, shortened
from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import Schema, nearest, type_name

OPTIONS = ("descriptor", "message", "registry", "reader")
Reader = Callable[[Any], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}
INTEGERS: tuple[int, ...] = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
INTEGERS += (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
_KIND_NAMES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


def decoder(schema: Schema, options: Mapping[str, str]) -> Decoder:
    if "registry" in options:
        from headwater.flow.registry.protobuf_reading import registered_decoder

        return registered_decoder(schema, options)
    for name in ("descriptor", "message"):
        if name not in options:
            raise InvalidFormat(f"format protobuf needs the option {name}", "It needs descriptor and message.")
    return message_decoder(schema, options["descriptor"], options["message"])


def message_decoder(schema: Schema, descriptor: str, message: str) -> "ProtobufDecoder":
    described = _message(descriptor, message)
    readers = {field.name: _reader_of(described, field.name, field.type) for field in schema.fields}
    return ProtobufDecoder(schema, message_factory.GetMessageClass(described), readers)


def _message(text: str, name: str) -> Descriptor:
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(base64.b64decode(text, validate=True))
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = [_full_name(file, message) for file in files.file for message in file.message_type]
        raise InvalidFormat(f'the descriptor has no message "{name}"', nearest(name, known)) from None
    except (DecodeError, binascii.Error, TypeError, ValueError) as error:
        way_out = "Write it with protoc --include_imports --descriptor_set_out=FILE, and give the base64 of FILE."
        raise InvalidFormat(f"the option descriptor is not a FileDescriptorSet in base64: {error}", way_out) from None


def _full_name(file: Any, message: Any) -> str:
    return f"{file.package}.{message.name}".lstrip(".")


def _reader_of(message: Descriptor, name: str, kind: pa.DataType) -> Reader:
    """A function from a message to the value of one field as the type wants it."""
    field = message.fields_by_name.get(name)
    if field is None:
        way_out = nearest(name, list(message.fields_by_name))
        raise InvalidFormat(f'message {message.full_name} has no field "{name}"', way_out)
    if _is_map(field):
        if not pa.types.is_map(kind):
            raise _misfit(field, kind)
        key = _value_reader(field.message_type.fields_by_name["key"], kind.key_type)
        item = _value_reader(field.message_type.fields_by_name["value"], kind.item_type)
        return lambda row: {key(one): item(other) for one, other in getattr(row, name).items()}
    if field.is_repeated:
        if not pa.types.is_list(kind):
            raise _misfit(field, kind)
        element = _value_reader(field, kind.value_type)
        return lambda row: [element(value) for value in getattr(row, name)]
    single = _value_reader(field, kind)
    if field.has_presence:
        return lambda row: single(getattr(row, name)) if row.HasField(name) else None
    return lambda row: single(getattr(row, name))


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _value_reader(field: FieldDescriptor, kind: pa.DataType) -> Reader:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _message_reader(field, kind)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM and pa.types.is_string(kind):
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))
    if not _fits(field, kind):
        raise _misfit(field, kind)
    return lambda value: value


def _fits(field: FieldDescriptor, kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return field.cpp_type in (*INTEGERS, FieldDescriptor.CPPTYPE_ENUM)
    if pa.types.is_decimal(kind):
        return field.cpp_type in INTEGERS
    if pa.types.is_floating(kind):
        return field.cpp_type in (*INTEGERS, *FLOATS)
    if pa.types.is_boolean(kind):
        return bool(field.cpp_type == FieldDescriptor.CPPTYPE_BOOL)
    wanted = FieldDescriptor.TYPE_STRING if pa.types.is_string(kind) else FieldDescriptor.TYPE_BYTES
    return bool((pa.types.is_string(kind) or pa.types.is_binary(kind)) and field.type == wanted)


def _message_reader(field: FieldDescriptor, kind: pa.DataType) -> Reader:
    inner = field.message_type
    if inner.full_name in WRAPPERS:
        single = _value_reader(inner.fields_by_name["value"], kind)
        return lambda value: single(value.value)
    if inner.full_name == TIMESTAMP and pa.types.is_timestamp(kind):
        return lambda value: EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if not pa.types.is_struct(kind):
        raise _misfit(field, kind)
    readers = {each.name: _reader_of(inner, each.name, each.type) for each in kind.fields}
    return lambda value: {name: read(value) for name, read in readers.items()}


def _misfit(field: FieldDescriptor, kind: pa.DataType) -> InvalidFormat:
    named = field.message_type.full_name if field.message_type else _KIND_NAMES[field.type]
    many = " (repeated)" if field.is_repeated else ""
    return InvalidFormat(
        f"field {field.full_name} is of kind {named}{many}, which does not fit a column {type_name(kind)}"
    )


class ProtobufDecoder:
    def __init__(self, schema: Schema, message: Any, readers: Mapping[str, Reader]) -> None:
        self._schema = schema
        self._message = message
        self._readers = readers

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decoded_rows(self._schema, [self.row(value) for value in values.to_pylist()])

    def row(self, value: bytes | None) -> Row:
        if value is None:
            return NULL_VALUE
        try:
            message = self._message.FromString(value)
            return {name: read(message) for name, read in self._readers.items()}
        except (DecodeError, ValueError, OverflowError, RecursionError) as error:
            return f"not a {self._message.DESCRIPTOR.full_name}: {shortened(str(error) or 'the bytes do not fit')}"
