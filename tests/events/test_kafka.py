"""Kafka clients and a topic of events: they read what was stored, and cannot append past a condition."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

import headwater.events as ev
from headwater.testing import running_node
from tests.events.theatre import Seat
from tests.waiting import LONG


def test_a_consumer_reads_events_and_a_producer_is_refused() -> None:
    with running_node() as node:
        store = ev.EventStore.on(node.log)
        store.handle(Seat, "12A", "reserve", user="ada", id="request-77")
        consumer = Consumer(
            {"bootstrap.servers": node.kafka_address, "group.id": "mail", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["events"])
        message = consumer.poll(LONG)
        assert message is not None
        headers = dict(message.headers() or [])
        assert message.key() == b"Seat-12A"
        assert (headers["event-type"], headers["event-version"]) == (b"Reserved", b"1")
        assert headers["request-id"] == b"request-77"
        consumer.close()
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            refused.extend([error] if error is not None else [])

        producer = Producer({"bootstrap.servers": node.kafka_address})
        producer.produce("events", key="Seat-12A", value="{}", on_delivery=delivered)
        assert producer.flush(LONG) == 0
        assert [error.code() for error in refused] == [KafkaError.POLICY_VIOLATION]
        assert store.load(Seat, "12A").version == 1


def test_a_transactional_producer_is_refused_too() -> None:
    with running_node() as node:
        ev.EventStore.on(node.log)
        producer = Producer({"bootstrap.servers": node.kafka_address, "transactional.id": "t"})
        producer.init_transactions(LONG)
        producer.begin_transaction()
        producer.produce("events", key="Seat-12A", value="{}")
        with pytest.raises(KafkaException):
            producer.commit_transaction(LONG)
