"""Which changes of a .proto file let its readers go on."""

from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.registry.budget import Budget
from headwater.registry.protobuf.kind import KIND


def file(body: str, *, package: str = "shop", syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; package {package}; {body}'


def message(fields: str, **more: str) -> str:
    return file(f"message Order {{ {fields} }}", **more)


def reasons(reader: str, writer: str) -> list[str]:
    read, written = (KIND.parse(text, {}).tree for text in (reader, writer))
    return KIND.unreadable(read, written, Budget())


INNER = "message In { int32 x = 1; } In i = 1;"

READABLE = [
    ("a field is added", message("int32 a = 1; string b = 2;"), message("int32 a = 1;")),
    ("a field is removed", message("int32 a = 1;"), message("int32 a = 1; string b = 2;")),
    ("a field is renamed", message("int32 b = 1;"), message("int32 a = 1;")),
    ("an int is wider", message("int64 a = 1;"), message("int32 a = 1;")),
    ("a text is read as bytes", message("bytes a = 1;"), message("string a = 1;")),
    ("an enum is read as a number", message("int32 a = 1;"), message("enum E { Z = 0; } E a = 1;")),
    ("a single text becomes repeated", message("repeated string a = 1;"), message("string a = 1;")),
    ("the package changes", message(INNER, package="other"), message(INNER)),
    ("a message is added", file("message Order {} message New {}"), file("message Order {}")),
    ("a single field moves into a oneof", message("oneof c { int32 a = 1; string b = 2; }"), message("int32 a = 1;")),
    ("a value of a map is wider", message("map<string, int64> a = 1;"), message("map<string, int32> a = 1;")),
    ("a map is renamed", message("map<string, int32> b = 1;"), message("map<string, int32> a = 1;")),
    (
        "a required field becomes optional",
        message("optional int32 a = 1;", syntax="proto2"),
        message("required int32 a = 1;", syntax="proto2"),
    ),
]

UNREADABLE = [
    ("another kind of number", message("sint32 a = 1;"), message("int32 a = 1;"), "a int32 cannot be read as a sint32"),
    ("a text is not a number", message("int32 a = 1;"), message("string a = 1;"), "Order.a: a string"),
    (
        "a message was removed",
        file("message Order {}"),
        file("message Order {} message Old {}"),
        "message Old was removed",
    ),
    ("a nested message was removed", message(""), message(INNER), "message Order.In was removed"),
    (
        "another message",
        message(INNER + " message Ja { int32 x = 1; }"),
        message("message In { int32 x = 1; } message Ja { int32 x = 1; } Ja i = 1;"),
        "a message Order.Ja",
    ),
    ("numbers become repeated", message("repeated int32 a = 1;"), message("int32 a = 1;"), "it is repeated"),
    (
        "fields are united in a oneof",
        message("oneof c { int32 a = 1; int32 b = 2; }"),
        message("int32 a = 1; int32 b = 2;"),
        "a, b could be written together",
    ),
    (
        "a field was removed from its oneof",
        message("oneof c { int32 a = 1; }"),
        message("oneof c { int32 a = 1; int32 b = 2; }"),
        "Order.b: it was removed from its oneof",
    ),
    (
        "a field becomes required",
        message("required int32 a = 1;", syntax="proto2"),
        message("optional int32 a = 1;", syntax="proto2"),
        "it is required",
    ),
    (
        "a required field is added",
        message("required int32 a = 1;", syntax="proto2"),
        message("", syntax="proto2"),
        "required",
    ),
    (
        "a map is no list",
        message("map<string, int32> a = 1;"),
        message("repeated int32 a = 1;"),
        "a map cannot be read",
    ),
    (
        "a value of a map changes",
        message("map<string, string> a = 1;"),
        message("map<string, int32> a = 1;"),
        "a int32",
    ),
]


@pytest.mark.parametrize("rule, reader, writer", READABLE, ids=[row[0] for row in READABLE])
def test_readers_can_read_on_where(rule: str, reader: str, writer: str) -> None:
    assert reasons(reader, writer) == []


@pytest.mark.parametrize("rule, reader, writer, why", UNREADABLE, ids=[row[0] for row in UNREADABLE])
def test_readers_cannot_read_on_where(rule: str, reader: str, writer: str, why: str) -> None:
    assert why in "; ".join(reasons(reader, writer))


# -- against google.protobuf -----------------------------------------------------------------------------------------

NUMBERS = ["int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "fixed32", "sfixed32", "fixed64",
           "sfixed64", "float", "double", "string", "bytes"]  # fmt: skip


def message_class(text: str) -> Any:
    described = FileDescriptorProto()
    described.CopyFrom(KIND.parse(text, {}).tree.file)
    described.name = "schema.proto"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(described.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def sample(kind: str) -> object:
    return {"string": "text", "bytes": b"text", "bool": True, "float": 0.5, "double": 0.5}.get(kind, 1)


@pytest.mark.parametrize("writer", NUMBERS)
@pytest.mark.parametrize("reader", NUMBERS)
def test_a_type_that_is_said_to_be_readable_gives_the_written_value(reader: str, writer: str) -> None:
    said = message(f"{reader} a = 1;"), message(f"{writer} a = 1;")
    written = message_class(said[1])(a=sample(writer))
    read = message_class(said[0])()
    read.MergeFromString(written.SerializeToString())
    same = getattr(read, "a", None) in (sample(writer), str(sample(writer)).encode(), "text", b"text")
    assert not same or not reasons(*said) or (reader, writer) in READ_BY_CHANCE
    assert same or reasons(*said)


READ_BY_CHANCE = {("bool", "sint32"), ("bool", "sint64")}
"""1 is written as 2 there, which is true as well; so is what stands for -1."""


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_fields_that_are_said_to_be_kept_apart_are_all_read(data: st.DataObject) -> None:
    def layout() -> str:
        inside = data.draw(st.sets(st.integers(1, 4), max_size=4))
        outside = data.draw(st.sets(st.integers(1, 4), max_size=4)) - inside
        choice = "".join(f"int32 f{number} = {number};" for number in sorted(inside))
        plain = "".join(f"int32 f{number} = {number};" for number in sorted(outside))
        return message((f"oneof c {{ {choice} }}" if inside else "") + plain)

    reader, writer = layout(), layout()
    if reasons(reader, writer):
        return
    written = message_class(writer)()
    for field in written.DESCRIPTOR.fields:
        setattr(written, field.name, 7)
    read = message_class(reader)()
    read.MergeFromString(written.SerializeToString())
    common = {field.name for field, _ in written.ListFields()} & {field.name for field in read.DESCRIPTOR.fields}
    assert {field.name for field, _ in read.ListFields()} == common
