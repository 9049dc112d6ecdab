"""Columns for the fields of a Protobuf message. Pure.

A field with presence (a message, an optional one) may be null; one without has its default where it was not sent.
"""

import base64
from collections.abc import Mapping
from importlib import import_module

import pyarrow as pa
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from headwater.errors import InvalidSchema
from headwater.flow.formats.protobuf_decoding import TIMESTAMP, WRAPPERS
from headwater.flow.formats.schema import Field, Schema

TYPES = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}
HINT = "Give the columns yourself, as a schema in DDL, and leave this one out."
OWN_NAME = "schema.proto"


def files_of(serialized: str, references: Mapping[str, str]) -> bytes:
    """All files that a schema consists of, as one FileDescriptorSet, each behind those it uses; its own is the last."""
    own = [_file(name, text) for name, text in {**references, OWN_NAME: serialized}.items()]
    known: dict[str, FileDescriptorProto] = {}
    for file in own:
        for name in file.dependency:
            if name not in references:
                _add_known(known, name)
    return bytes(FileDescriptorSet(file=[*known.values(), *own]).SerializeToString())


def _file(name: str, serialized: str) -> FileDescriptorProto:
    file = FileDescriptorProto.FromString(base64.b64decode(serialized))
    file.name = name
    return file


def _add_known(known: dict[str, FileDescriptorProto], name: str) -> None:
    """A file that every Protobuf library has, behind those it uses."""
    if name in known:
        return
    if not name.startswith("google/"):
        raise InvalidSchema(f"the registered schema imports {name}, which is not among its references", HINT)
    try:
        described = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    except (ImportError, AttributeError):
        raise InvalidSchema(f"the registered schema imports {name}, which is not installed here", HINT) from None
    for other in described.dependencies:
        _add_known(known, other.name)
    known[name] = FileDescriptorProto()
    described.CopyToProto(known[name])


def message_in(files: bytes, indexes: tuple[int, ...]) -> str:
    """The full name of the message at a place in the last file. LookupError if there is none."""
    parsed = FileDescriptorSet.FromString(files)
    own = parsed.file[-1]
    message, names = own.message_type[indexes[0]], [own.message_type[indexes[0]].name]
    for number in indexes[1:]:
        message = message.nested_type[number]
        names.append(message.name)
    return ".".join([*([own.package] if own.package else []), *names])


def schema_of_message(files: bytes, message: str) -> Schema:
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    described = pool.FindMessageTypeByName(message)
    if not described.fields:
        raise InvalidSchema(f"message {message} has no fields, and columns are those of one", HINT)
    return Schema(tuple(Field(field.name, *_column(field, ())) for field in described.fields))


def _column(field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, bool]:
    """Type, and whether it may be null."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (_single(field.message_type.fields_by_name[name], inside) for name in ("key", "value"))
        return pa.map_(key, pa.field("value", value)), False
    if field.is_repeated:
        return pa.list_(pa.field("element", _single(field, inside))), False
    return _single(field, inside), bool(field.has_presence)


def _single(field: FieldDescriptor, inside: tuple[str, ...]) -> pa.DataType:
    if field.message_type is None:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else TYPES[field.cpp_type]
    message: Descriptor = field.message_type
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if message.full_name in WRAPPERS:
        return _single(message.fields_by_name["value"], inside)
    if message.full_name in inside:
        raise InvalidSchema(f"field {field.full_name} is inside itself, for which no column is deep enough", HINT)
    if not message.fields:
        raise InvalidSchema(f"field {field.full_name} is a message without fields", HINT)
    deeper = (*inside, message.full_name)
    return pa.struct([
        pa.field(one.name, kind, nullable=nullable)
        for one in message.fields
        for kind, nullable in [_column(one, deeper)]
    ])  # fmt: skip
