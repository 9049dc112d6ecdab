"""Apps that say no schema: what producers registered is what their streams have."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.stream import Table
from headwater.flow.run.app_tester import AppTester
from headwater.node import Node
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.flow.registry import serializers
from tests.flow.spark_session import shared_session
from tests.waiting import LONG

ID, AMOUNT = {"name": "id", "type": "string"}, {"name": "amount", "type": "long"}
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
COUNTRY = {"name": "country", "type": "string", "default": "AT"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def record(*fields: Mapping[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


@pytest.fixture
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data", NodeSettings(http=HttpSettings())) as running:
        yield running


def send(node: Node, topic: str, values: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": node.kafka_address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(LONG) == 0


def shop(key: str = "id") -> App:
    app = App("shop")
    orders = app.stream("orders", format="avro", time="at")

    @app.view(key=key)
    def totals() -> Table:
        return orders.by(key).agg("sum(amount) as amount")

    return app


def order(name: str, amount: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "amount": amount, "at": NOON, **more}


def test_what_a_serializer_sends_is_read_without_a_word_about_its_schema(node: Node, spark: SparkSession) -> None:
    rows = [order("a", 5), order("b", 2**40), order("a", -1)]
    send(node, "orders", serializers.avro(node.http_url, "orders", record(ID, AMOUNT, AT), rows))
    send(node, "orders", [b"not Avro"])
    tester = AppTester(shop(), node, spark)
    tester.run()
    assert tester.rows("totals") == [{"id": "a", "amount": 4}, {"id": "b", "amount": 2**40}]
    account = tester.account("totals")
    assert (account.rows_in, account.poisoned) == (4, 1)
    (poisoned,) = tester.values("shop.orders.poisoned")
    assert poisoned["reason"] == "there is no schema id before the value: it begins with 6e 6f 74 20 41"


def test_a_column_that_producers_add_is_there_when_the_app_wants_it_and_no_harm_before(
    node: Node, spark: SparkSession
) -> None:
    old, new = record(ID, AMOUNT, AT), record(ID, AMOUNT, AT, COUNTRY)
    send(node, "orders", serializers.avro(node.http_url, "orders", old, [order("a", 1)]))
    first = AppTester(shop(), node, spark)
    first.run()
    rows = [order("a", 10, country="DE"), order("b", 7, country="AT")]
    send(node, "orders", serializers.avro(node.http_url, "orders", new, rows))
    first.run()  # declared while the old schema was the newest: it reads by that one
    assert first.rows("totals") == [{"id": "a", "amount": 11}, {"id": "b", "amount": 7}]

    again = AppTester(shop(), node, spark)
    send(node, "orders", serializers.avro(node.http_url, "orders", old, [order("b", 1)]))
    again.run()  # the same code, with a column more that it does not use
    assert again.rows("totals") == [{"id": "a", "amount": 11}, {"id": "b", "amount": 8}]

    by_country = AppTester(shop(key="country"), node, spark)
    by_country.run(rebuild=["totals"])
    assert by_country.rows("totals") == [{"country": "AT", "amount": 9}, {"country": "DE", "amount": 10}]
    assert by_country.prove("totals").different == 0


def test_json_and_protobuf_are_read_so_too(node: Node, spark: SparkSession) -> None:
    schema = json.dumps({"title": "O", "type": "object", "required": ["id", "amount"], "properties": {
        "id": {"type": "string"}, "amount": {"type": "integer"}}})  # fmt: skip
    send(node, "js", serializers.json_schema(node.http_url, "js", schema, [{"id": "a", "amount": 5}] * 3))
    _, kind = serializers.shop_messages()
    message = kind(id="a")
    message.price.cents = 250
    send(node, "pb", serializers.protobuf(node.http_url, "pb", [message, message]))
    app = App("both")
    lines = app.stream("js", format="json", registry=node.http_url)
    messages = app.stream("pb", format="protobuf", options={"message": "shop.Order"})

    @app.view(key="id")
    def by_line() -> Table:
        return lines.by("id").agg("sum(amount) as amount")

    @app.view(key="id")
    def by_message() -> Table:
        return messages.by("id").agg("sum(price.cents) as cents")

    tester = AppTester(app, node, spark)
    tester.run()
    assert tester.rows("by_line") == [{"id": "a", "amount": 15}]
    assert tester.rows("by_message") == [{"id": "a", "cents": 500}]


def test_any_spark_program_reads_it(node: Node, spark: SparkSession) -> None:
    rows = [order("a", 5)]
    send(node, "orders", serializers.avro(node.http_url, "orders", record(ID, AMOUNT, AT), rows))
    reader = spark.read.format("headwater").option("data", str(node.data)).option("topic", "orders")
    frame = reader.option("registry", node.http_url).load()
    assert frame.selectExpr("id", "amount", "unix_seconds(at) as at").collect() == [("a", 5, int(NOON.timestamp()))]


def test_a_topic_without_a_schema_is_told_with_the_place_in_the_app(node: Node, spark: SparkSession) -> None:
    with pytest.raises(InvalidDeclaration, match=r'of orders \(.*test_app\.py:\d+\): .* no subject "orders-value"'):
        AppTester(shop(), node, spark).run()


def test_a_column_that_the_registered_schema_does_not_have_is_told(node: Node, spark: SparkSession) -> None:
    serializers.avro(node.http_url, "orders", record(ID, AMOUNT), [{"id": "a", "amount": 1}])
    with pytest.raises(InvalidDeclaration, match="at"):
        AppTester(shop(), node, spark).run()
