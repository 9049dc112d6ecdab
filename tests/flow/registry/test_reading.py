"""What confluent-kafka's serializers write against our registry, a stream's decoder reads."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InvalidFormat, RegistryUnavailable, UnknownSubject
from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.registry.client import RegistryClient
from headwater.flow.registry.describing import Described, describe
from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.flow.registry import serializers

FIRST = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "count", "type": "int"},
    {"name": "gone", "type": "string"},
]})  # fmt: skip
SECOND = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "count", "type": "long"},
    {"name": "country", "type": "string", "default": "AT"},
    {"name": "note", "type": ["null", "string"], "default": None},
]})  # fmt: skip
ROWS = [{"id": "a", "amount": Decimal("1.50"), "count": 3, "gone": "x"}]
LATER = [{"id": "b", "amount": Decimal("2.25"), "count": 2**40, "country": "DE", "note": "n"}]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node(settings=NodeSettings(http=HttpSettings())) as running:
        yield running


def described(node: Node, topic: str, format: str, **options: str) -> Described:
    return describe(RegistryClient(node.http_url, patience_seconds=0), topic, format, options, None)


def decode(found: Described, format: str, values: list[bytes | None]) -> Decoded:
    return decoder_for(format, found.schema, found.options).decode(pa.array(values, type=pa.binary()))


def test_avro_of_any_version_is_read_by_the_newest(node: Node) -> None:
    values = serializers.avro(node.http_url, "orders", FIRST, ROWS)
    values += serializers.avro(node.http_url, "orders", SECOND, LATER)
    found = described(node, "orders", "avro")
    assert found.schema.ddl == (
        "id string NOT NULL, amount decimal(12,2) NOT NULL, count bigint NOT NULL, country string NOT NULL, note string"
    )
    decoded = decode(found, "avro", [*values])
    assert decoded.reasons == []
    assert decoded.columns.to_pylist() == [
        {"id": "a", "amount": Decimal("1.50"), "count": 3, "country": "AT", "note": None},
        {"id": "b", "amount": Decimal("2.25"), "count": 2**40, "country": "DE", "note": "n"},
    ]


def test_a_version_can_be_chosen(node: Node) -> None:
    serializers.avro(node.http_url, "chosen", FIRST, ROWS)
    serializers.avro(node.http_url, "chosen", SECOND, LATER)
    assert "gone" in described(node, "chosen", "avro", version="1").schema.names
    assert described(node, "none", "avro", subject="chosen-value", version="1").schema.names[0] == "id"


def test_values_that_cannot_be_read_are_told_apart(node: Node) -> None:
    [good] = serializers.avro(node.http_url, "described", SECOND, LATER)
    values = [b"\x00\x00\x00\x03\xe7\x02", good, b"{}", None, b"", good[:-1], good + b"x"]
    decoded = decode(described(node, "described", "avro"), "avro", values)
    assert decoded.bad.tolist() == [0, 2, 3, 4, 5, 6]
    assert decoded.reasons == [
        f"schema id 999 is not in the registry at {node.http_url}",
        "there is no schema id before the value: it begins with 7b 7d",
        "the value is null: read the topic as a table if that means a deletion",
        "there is no schema id before the value: it is empty",
        "not Avro of the given schema: Expected 1 bytes, read 0",
        "not Avro of the given schema: 1 bytes are left over",
    ]


def test_a_schema_is_asked_for_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    values = serializers.avro(node.http_url, "once", FIRST, ROWS * 5)
    found = described(node, "once", "avro")
    asked: list[str] = []
    plain = RegistryClient.ask

    def counted(self: RegistryClient, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        asked.append(path)
        return plain(self, method, path, body)

    monkeypatch.setattr(RegistryClient, "ask", counted)
    decoder = decoder_for("avro", found.schema, found.options)
    for _ in range(3):
        assert decoder.decode(pa.array(values, type=pa.binary())).reasons == []
    assert len(asked) <= 1


def test_given_columns_are_read_by_each_writers_own_schema(node: Node) -> None:
    values = serializers.avro(node.http_url, "given", FIRST, ROWS)
    values += serializers.avro(node.http_url, "given", SECOND, LATER)
    client = RegistryClient(node.http_url, patience_seconds=0)
    found = describe(client, "given", "avro", {}, parse_ddl("id string, gone string, country string"))
    assert decode(found, "avro", [*values]).columns.to_pylist() == [
        {"id": "a", "gone": "x", "country": None},
        {"id": "b", "gone": None, "country": "DE"},
    ]


def test_json_is_read_without_its_frame(node: Node) -> None:
    schema = json.dumps({"title": "T", "type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"oneOf": [{"type": "null"}, {"type": "number"}]},
    }})  # fmt: skip
    row = {"id": 7, "at": "2026-01-01T00:00:00Z", "tags": ["a"], "more": None}
    values = serializers.json_schema(node.http_url, "j", schema, [row])
    found = described(node, "j", "json")
    assert found.schema.ddl == "id bigint NOT NULL, at timestamp, tags array<string>, more double"
    decoded = decode(found, "json", [*values, b'{"id": 1}', b"\x00\x00\x00\x03\xe7{}", values[0][:5] + b"{"])
    assert decoded.columns.to_pylist()[0] == {**row, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert decoded.bad.tolist() == [1, 2, 3]
    assert decoded.reasons[0] == "there is no schema id before the value: it begins with 7b 22 69 64 22"
    assert decoded.reasons[1] == f"schema id 999 is not in the registry at {node.http_url}"
    assert decoded.reasons[2].startswith("not JSON")


def test_protobuf_is_read_as_the_message_that_was_asked_for(node: Node) -> None:
    other, order = serializers.shop_messages()
    made = order(id="a", tags=["x", "y"])
    made.price.cents = 250
    made.at.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
    values = serializers.protobuf(node.http_url, "p", [made]) + serializers.protobuf(node.http_url, "p", [other(x=1)])
    found = described(node, "p", "protobuf", message="shop.Order")
    assert found.schema.ddl == (
        "id string NOT NULL, price struct<cents: bigint NOT NULL>, at timestamp, tags array<string> NOT NULL"
    )
    decoded = decode(found, "protobuf", [*values, values[0][:5] + b"\xff"])
    assert decoded.columns.to_pylist()[0] == {
        "id": "a", "price": {"cents": 250}, "at": datetime(2026, 1, 1, tzinfo=UTC), "tags": ["x", "y"]}  # fmt: skip
    assert decoded.reasons == [
        "it is a shop.Other, where a shop.Order was expected",
        f"not Protobuf of schema {int.from_bytes(values[0][1:5])}: the message indexes end too early",
    ]


def test_the_first_message_of_a_file_is_meant_unless_one_is_named(node: Node) -> None:
    other, _ = serializers.shop_messages()
    values = serializers.protobuf(node.http_url, "q", [other(x=5)])
    found = described(node, "q", "protobuf")
    assert decode(found, "protobuf", [*values]).columns.to_pylist() == [{"x": 5}]


def test_what_the_registry_does_not_have_is_told(node: Node) -> None:
    with pytest.raises(UnknownSubject, match='no subject "nothing-value"'):
        described(node, "nothing", "avro")
    serializers.avro(node.http_url, "kind", FIRST, ROWS)
    with pytest.raises(InvalidFormat, match=r'is of kind AVRO\. Say format="avro"\.'):
        described(node, "kind", "json")
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        describe(RegistryClient("http://127.0.0.1:1", patience_seconds=0), "t", "avro", {}, None)


def test_a_node_is_found_by_its_data_directory_also_after_it_has_moved(node: Node, tmp_path: Any) -> None:
    for _ in range(2):
        with running_node(tmp_path, NodeSettings(http=HttpSettings())) as own:
            serializers.avro(own.http_url, "orders", FIRST, ROWS)
            assert RegistryClient(str(tmp_path)).version("orders-value").id == 1
    with pytest.raises(RegistryUnavailable, match="no node runs on this data directory"):
        RegistryClient(str(tmp_path), patience_seconds=0).version("orders-value")


def test_a_name_and_password_in_the_url_are_sent_and_never_shown() -> None:
    client = RegistryClient("http://ada:secret@127.0.0.1:1", patience_seconds=0)
    with pytest.raises(RegistryUnavailable) as caught:
        client.version("s")
    assert "secret" not in str(caught.value) + client.shown
