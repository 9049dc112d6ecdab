import asyncio
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.errors import PortUnavailable, UnsafeBind
from headwater.log.log import Log
from headwater.log.storage import LocalStorage
from headwater.log.storage.memory import MemoryStorage
from headwater.settings import WireSettings
from headwater.wire.server import KafkaServer
from tests.waiting import LONG, patience
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import fetch, produce
from tests.wire.running import RunningServer, running_server


def test_port_zero_becomes_a_real_one(server: RunningServer) -> None:
    assert server.port > 0
    assert server.host == "127.0.0.1"


def test_a_public_address_is_refused() -> None:
    with Log.open("data", storage=MemoryStorage()) as log, pytest.raises(UnsafeBind):
        asyncio.run(KafkaServer(log, WireSettings(host="0.0.0.0", port=0)).start())


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_running(server: RunningServer) -> None:
    async def start_twice(log: Log) -> None:
        sentence = rf"the Kafka port cannot be opened at 127\.0\.0\.1:{server.port}: it is in use\. .* with --kafka"
        with pytest.raises(PortUnavailable, match=sentence):
            await KafkaServer(log, WireSettings(port=server.port)).start()

    before = threading.active_count()
    with Log.open("data", storage=MemoryStorage()) as log:
        asyncio.run(start_twice(log))
    assert threading.active_count() <= before


def test_stopping_answers_who_waits_and_ends_every_connection() -> None:
    with running_server() as server:
        server.log.create_topic("orders")
        with RawClient(server.host, server.port) as waiting, RawClient(server.host, server.port) as idle:
            waiting.send_request(fetch("orders", wait_ms=60_000))
            time.sleep(0.1)
            begun = patience()
            server.stop()
            assert patience() - begun < 4
            assert waiting.receive_frame(), "it gets an empty response"
            assert idle.closed()


def test_stopping_confirms_what_was_stored() -> None:
    with running_server() as server:
        server.log.create_topic("orders")
        with RawClient(server.host, server.port) as client:
            for number in range(10):
                client.send_request(produce("orders", batch(b"%d" % number)))
            time.sleep(0.05)
            server.stop()
            while client.receive_frame():
                pass
        assert server.log.partition("orders", 0).durable_end_offset == server.log.partition("orders", 0).end_offset


def test_stopping_twice_is_stopping_once() -> None:
    with running_server() as server:
        server.stop()
        server.stop()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_real_client_produces_and_consumes(tmp_path: Path, codec: str) -> None:
    with running_server(storage=LocalStorage(tmp_path)) as server:
        admin = AdminClient({"bootstrap.servers": server.address})
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(timeout=LONG)
        producer = Producer(
            {"bootstrap.servers": server.address, "compression.type": codec, "enable.idempotence": True}
        )
        failures: list[KafkaError] = []
        for number in range(500):
            producer.produce(
                "orders", b"value %d" % number, key=b"%d" % number, headers={"number": b"%d" % number},
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(LONG) == 0
        assert failures == []
        assert consume(server, 500) == {(b"%d" % number, b"value %d" % number) for number in range(500)}


def consume(server: RunningServer, count: int) -> set[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": "readers", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("orders", number, 0) for number in range(3)])
        messages = consumer.consume(count, timeout=LONG)
        assert [message.error() for message in messages if message.error()] == []
        return {(message.key(), message.value()) for message in messages}
    finally:
        consumer.close()
