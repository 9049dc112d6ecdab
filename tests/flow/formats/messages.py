"""A Protobuf message described as data, as protoc would write it."""

import base64
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
    "double": _FIELD.TYPE_DOUBLE,
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
}


def _add(message: Any, name: str, kind: str, *, repeated: bool = False, optional: bool = False) -> None:
    field = message.field.add(name=name, number=len(message.field) + 1)
    field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type = _FIELD.TYPE_ENUM if kind.endswith("Status") else _FIELD.TYPE_MESSAGE
        field.type_name = kind
    if optional:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _files() -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    for imported in (timestamp_pb2, wrappers_pb2):
        imported.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    status = file.enum_type.add(name="Status")
    for number, name in enumerate(["NEW", "PAID"]):
        status.value.add(name=name, number=number)
    place = file.message_type.add(name="Place")
    _add(place, "city", "string")
    order = file.message_type.add(name="Order")
    _add(order, "id", "int64")
    _add(order, "name", "string")
    _add(order, "tags", "string", repeated=True)
    _add(order, "place", ".shop.Place")
    _add(order, "at", ".google.protobuf.Timestamp")
    _add(order, "status", ".shop.Status")
    _add(order, "note", "string", optional=True)
    _add(order, "price", ".google.protobuf.DoubleValue")
    _add(order, "places", ".shop.Place", repeated=True)
    _add(order, "counts", ".shop.Order.CountsEntry", repeated=True)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _add(entry, "key", "string")
    _add(entry, "value", "int64")
    return files


FILES = _files()
DESCRIPTOR = base64.b64encode(FILES.SerializeToString()).decode()


def order_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in FILES.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
