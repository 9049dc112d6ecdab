"""The texts of real .proto files give the descriptors that protoc made of them."""

import base64
from importlib import import_module
from importlib.metadata import files
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headwater.errors import InvalidSchemaText
from headwater.registry.protobuf.kind import KIND, KNOWN, well_known
from headwater.registry.words import Parsed

PUBLISHED = sorted(str(file) for file in files("googleapis-common-protos") or [] if file.suffix == ".proto")


def parsed(text: str, **references: Parsed) -> Parsed:
    return KIND.parse(text, references)


def descriptor(file: FileDescriptor) -> FileDescriptorProto:
    found = FileDescriptorProto()
    file.CopyToProto(found)
    return found


def serialized(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def references_of(file: FileDescriptor) -> dict[str, Parsed]:
    return {
        one.name: parsed(serialized(descriptor(one)), **references_of(one))
        for one in file.dependencies
        if well_known(one.name) is None
    }


def test_there_are_published_files_to_read() -> None:
    assert len(PUBLISHED) >= 50


@pytest.mark.parametrize("path", PUBLISHED)
def test_the_text_of_a_published_file_gives_the_descriptor_that_was_published_with_it(path: str) -> None:
    module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    [packaged] = [file for file in files("googleapis-common-protos") or [] if str(file) == path]
    beneath = references_of(module.DESCRIPTOR)
    text = Path(str(packaged.locate())).read_text(encoding="utf-8")
    assert parsed(text, **beneath).canonical == parsed(serialized(descriptor(module.DESCRIPTOR)), **beneath).canonical


@pytest.mark.parametrize("name", KNOWN)
def test_a_descriptor_written_as_text_is_read_as_the_same_descriptor(name: str) -> None:
    file = well_known(f"google/protobuf/{name}.proto")
    assert file is not None
    given = parsed(serialized(file))
    assert parsed(given.text).canonical == given.canonical
    assert "syntax = " in given.text


EVERYTHING = r"""
syntax = "proto2"; // a comment
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "org.shop";
option (custom.option).deep = { any: 1 };
/* another
   comment */
message Order {
  option deprecated = true;
  required string id = 1 [json_name = "ID"];
  optional sint64 count = 2 [default = -7, deprecated = true];
  repeated double prices = 0x3 [packed = true];
  optional bytes raw = 4 [default = "a\x00\"'\\\n\377"];
  optional string word = 5 [default = 'it''s "so"'];
  optional float far = 6 [default = inf];
  optional Colour colour = 7 [default = RED];
  map<string, Order.Line> lines = 8;
  oneof payment { string card = 9; bytes cash = 10; }
  optional google.protobuf.Timestamp at = 11;
  message Line { optional .shop.v1.Order of = 1; enum Kind { A = 0; B = -1; } optional Kind kind = 2; }
  enum Colour { option allow_alias = true; RED = 1; ROT = 1 [deprecated = true]; reserved 5 to 7, 9; reserved "BLUE"; }
  extensions 100 to 199, 300 to max;
  reserved 20, 30 to 40;
  reserved "old", "older";
}
extend Order { optional int32 more = 150; }
service Shop {
  rpc Buy (Order) returns (stream Order.Line);
  rpc All (stream Order) returns (Order) { option deprecated = true; }
}
"""


def test_everything_a_file_can_say_survives_being_written_and_read() -> None:
    given = parsed(EVERYTHING)
    again = parsed(given.tree.serialized)
    assert parsed(again.text).canonical == again.canonical == given.canonical
    order = given.tree.file.message_type[0]
    assert [field.type_name for field in order.field if field.type_name] == [
        ".shop.v1.Order.Colour", ".shop.v1.Order.LinesEntry", ".google.protobuf.Timestamp"]  # fmt: skip
    assert order.field[1].default_value == "-7"
    assert order.field[3].default_value == "a\\000\\\"\\'\\\\\\n\\377"


def test_an_optional_field_of_proto3_is_distinguished_from_a_plain_one() -> None:
    given = parsed(
        'syntax = "proto3"; message A { int32 plain = 1; optional int32 said = 2; oneof c { int32 x = 3; } }'
    )
    described = given.tree.file.message_type[0]
    assert [field.proto3_optional for field in described.field] == [False, True, False]
    assert [one.name for one in described.oneof_decl] == ["c", "_said"]
    assert parsed(given.tree.serialized).canonical == given.canonical


MISTAKES = [
    ('syntax = "proto3"; message A { int32 x = 1 }', 'has "}" in line 1, where ";" was expected'),
    ('syntax = "proto3"; message A { Missing x = 1; }', "does not fit together"),
    ('syntax = "proto3"; message A { int32 x = 1; int32 y = 1; }', "does not fit together"),
    ('syntax = "proto3"; import "other.proto";', 'the import "other.proto" is not among the references'),
    ('syntax = "proto4";', 'there is no syntax "proto4"'),
    ('edition = "2023";', "editions of Protobuf are not supported"),
    ('syntax = "proto3"; message A { int32 x = 0; }', "the number of a field is 0"),
    ("message A { int32 x = 1; }", "optional, required or repeated was expected"),
    ('syntax = "proto3"; message A { "', "has no meaning there"),
    ('syntax = "proto3"; ' + "message A {" * 100, "nested deeper"),
    ('syntax = "proto3"; message A { option x = {', "expected"),
]


@pytest.mark.parametrize("text, why", MISTAKES)
def test_a_mistake_is_reported_with_its_location(text: str, why: str) -> None:
    with pytest.raises(InvalidSchemaText) as caught:
        parsed(text)
    assert why in str(caught.value)


def test_no_text_makes_the_parser_do_anything_but_refuse() -> None:
    for cut in range(len(EVERYTHING)):
        try:
            parsed(EVERYTHING[:cut] + EVERYTHING[cut + 1 :])
        except InvalidSchemaText:
            continue
