"""confluent-kafka's serializers, as any producer uses them: what they write is what we must read."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def avro(url: str, topic: str, schema: str, rows: Sequence[Mapping[str, Any]]) -> list[bytes]:
    with SchemaRegistryClient({"url": url}) as client:
        serializer = AvroSerializer(client, schema)
        return [serializer(dict(row), context(topic)) or b"" for row in rows]


def json_schema(url: str, topic: str, schema: str, rows: Sequence[Mapping[str, Any]]) -> list[bytes]:
    with SchemaRegistryClient({"url": url}) as client:
        serializer = JSONSerializer(schema, client)
        return [serializer(dict(row), context(topic)) or b"" for row in rows]


def protobuf(url: str, topic: str, messages: Sequence[Any]) -> list[bytes]:
    with SchemaRegistryClient({"url": url}) as client:
        serializer = ProtobufSerializer(type(messages[0]), client, {"use.deprecated.format": False})
        return [serializer(message, context(topic)) or b"" for message in messages]


def shop_messages() -> tuple[Any, Any]:
    """Classes of shop.Other and shop.Order, of a file that imports another and one that everybody has."""
    proto = descriptor_pb2.FieldDescriptorProto
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    base = descriptor_pb2.FileDescriptorProto(name="shop/base.proto", package="shop", syntax="proto3")
    base.message_type.add(name="Money").field.add(name="cents", number=1, label=1, type=proto.TYPE_INT64)
    pool.Add(base)
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/base.proto", "google/protobuf/timestamp.proto"],
    )
    file.message_type.add(name="Other").field.add(name="x", number=1, label=1, type=proto.TYPE_INT32)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, label=1, type=proto.TYPE_STRING)
    order.field.add(name="price", number=2, label=1, type=proto.TYPE_MESSAGE, type_name=".shop.Money")
    order.field.add(name="at", number=3, label=1, type=proto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    order.field.add(name="tags", number=4, label=3, type=proto.TYPE_STRING)
    pool.Add(file)
    other, made = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Other", "Order")
    )
    return other, made
