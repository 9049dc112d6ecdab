"""confluent-kafka's client, serializers and deserializers, unchanged, against the registry of a node."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.flow.registry.serializers import shop_messages

FIRST = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
SECOND = json.dumps({
    "type": "record", "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "country", "type": "string", "default": "AT"}],
})  # fmt: skip
BREAKING = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"}]})
OBJECT = json.dumps({"title": "O", "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node(settings=NodeSettings(http=HttpSettings())) as running:
        yield running


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.http_url}) as opened:
        yield opened


def value(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_goes_there_and_back_also_to_who_has_an_older_or_newer_schema(client: SchemaRegistryClient) -> None:
    written = AvroSerializer(client, FIRST)({"id": "a"}, value("avro"))
    newer = AvroSerializer(client, SECOND)({"id": "b", "country": "DE"}, value("avro"))
    assert written is not None
    assert newer is not None
    assert AvroDeserializer(client)(newer, value("avro")) == {"id": "b", "country": "DE"}
    assert AvroDeserializer(client, SECOND)(written, value("avro")) == {"id": "a", "country": "AT"}
    assert AvroDeserializer(client, FIRST)(newer, value("avro")) == {"id": "b"}


def test_json_goes_there_and_back(client: SchemaRegistryClient) -> None:
    written = JSONSerializer(OBJECT, client)({"id": "a"}, value("json"))
    assert written is not None
    assert JSONDeserializer(None, schema_registry_client=client)(written, value("json")) == {"id": "a"}


def test_protobuf_goes_there_and_back_with_the_files_it_imports(client: SchemaRegistryClient) -> None:
    _, order = shop_messages()
    message = order(id="a", tags=["x"])
    message.price.cents = 250
    written = ProtobufSerializer(order, client, {"use.deprecated.format": False})(message, value("proto"))
    assert written is not None
    assert {"shop/base.proto", "proto-value"} <= set(client.get_subjects())
    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    assert read(written, value("proto")) == message


def test_a_serializer_that_may_not_register_uses_what_is_there(client: SchemaRegistryClient) -> None:
    settings: dict[str, Any] = {"auto.register.schemas": False, "use.latest.version": True}
    client.register_schema("closed-value", Schema(FIRST, "AVRO"))
    assert AvroSerializer(client, None, conf=settings)({"id": "a"}, value("closed")) is not None
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, None, conf=settings)({"id": "a"}, value("unknown"))
    assert refused.value.error_code == 40401


def test_a_change_that_the_rule_forbids_is_refused_where_it_is_produced(client: SchemaRegistryClient) -> None:
    AvroSerializer(client, FIRST)({"id": "a"}, value("guarded"))
    with pytest.raises(SchemaRegistryError, match="not BACKWARD compatible with version 1") as refused:
        AvroSerializer(client, BREAKING)({"number": 1}, value("guarded"))
    assert refused.value.http_status_code == 409


def test_the_client_registers_looks_up_compares_and_deletes(client: SchemaRegistryClient) -> None:
    first = client.register_schema("all/of it", Schema(FIRST, "AVRO"))
    second = client.register_schema("all/of it", Schema(SECOND, "AVRO"), normalize_schemas=True)
    assert client.get_versions("all/of it") == [1, 2]
    assert client.get_latest_version("all/of it").schema_id == second
    assert client.get_version("all/of it", 1).schema_id == first
    assert json.loads(client.get_schema(first).schema_str or "") == json.loads(FIRST)
    assert client.lookup_schema("all/of it", Schema(SECOND, "AVRO")).version == 2
    assert client.test_compatibility("all/of it", Schema(BREAKING, "AVRO")) is False
    assert client.test_compatibility_all_versions("all/of it", Schema(SECOND, "AVRO")) is True
    assert "all/of it" in client.get_subjects_by_schema_id(first)
    assert {"all/of it"} <= {one.subject for one in client.get_schema_versions(first)}
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.delete_version("all/of it", 1) == 1
    assert client.delete_subject("all/of it") == [2]
    assert client.delete_subject("all/of it", permanent=True) == [1, 2]


def test_the_client_sets_levels(client: SchemaRegistryClient) -> None:
    client.set_compatibility("levels-value", "NONE")
    assert client.get_compatibility("levels-value") == "NONE"
    client.register_schema("levels-value", Schema(FIRST, "AVRO"))
    assert client.register_schema("levels-value", Schema(BREAKING, "AVRO"))
    assert client.get_config("levels-value").compatibility_level == "NONE"
    assert str(client.get_mode("levels-value")) == "READWRITE"


def test_a_schema_that_refers_to_another_is_read_with_it(client: SchemaRegistryClient) -> None:
    money = json.dumps({"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]})
    order = json.dumps({"type": "record", "name": "shop.Order", "fields": [{"name": "price", "type": "shop.Money"}]})
    client.register_schema("money", Schema(money, "AVRO"))
    schema = Schema(order, "AVRO", [SchemaReference("shop.Money", "money", 1)])
    written = AvroSerializer(client, schema)({"price": {"cents": 5}}, value("referring"))
    assert written is not None
    assert AvroDeserializer(client)(written, value("referring")) == {"price": {"cents": 5}}
    assert client.get_referenced_by("money", 1) == [client.get_latest_version("referring-value").schema_id]


NAMES = st.sampled_from(["a", "b", "c", "d"])
TYPES = st.sampled_from(["int", "long", "double", "string", "boolean"])
VALUES: dict[str, Any] = {"int": 7, "long": 2**40, "double": 0.5, "string": "text", "boolean": True}
FIELDS = st.dictionaries(NAMES, st.tuples(TYPES, st.booleans()), min_size=1, max_size=4)


def record(fields: dict[str, tuple[str, bool]]) -> str:
    listed = [
        {"name": name, "type": kind, **({"default": VALUES[kind]} if default else {})}
        for name, (kind, default) in fields.items()
    ]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


def serialized(client: SchemaRegistryClient, topic: str, schema: str, row: dict[str, Any]) -> bytes | None:
    """None if the registry's rule forbids the schema."""
    try:
        sent: bytes | None = AvroSerializer(client, schema)(row, value(topic))
    except SchemaRegistryError as refused:
        if refused.http_status_code != 409:
            raise
        return None
    return sent


SUBJECTS = count()


@settings(max_examples=25, deadline=None)
@given(st.lists(FIELDS, min_size=2, max_size=5, unique_by=record))
def test_what_the_registry_lets_through_every_reader_of_the_newest_version_reads(
    client: SchemaRegistryClient, versions: list[dict[str, tuple[str, bool]]]
) -> None:
    """BACKWARD_TRANSITIVE, as it is promised to those who read a topic from its beginning."""
    topic = f"any-{next(SUBJECTS)}"
    client.set_compatibility(f"{topic}-value", "BACKWARD_TRANSITIVE")
    rows = [{name: VALUES[kind] for name, (kind, _) in fields.items()} for fields in versions]
    sent = [serialized(client, topic, record(fields), row) for fields, row in zip(versions, rows, strict=True)]
    newest = next(fields for fields, one in zip(versions[::-1], sent[::-1], strict=True) if one is not None)
    reader = AvroDeserializer(client, record(newest))
    for row, one in zip(rows, sent, strict=True):
        expected = {name: row.get(name, VALUES[kind]) for name, (kind, _) in newest.items()}
        assert one is None or reader(one, value(topic)) == expected
