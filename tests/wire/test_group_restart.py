"""A broker that restarts under a working group: real clients go on where they were, without a rebalance."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer

from headwater.log.groups.membership import Group
from headwater.log.storage import MemoryStorage, Storage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.record import TopicPartition
from tests.waiting import LONG, patience
from tests.wire.running import RunningServer, running_server

SETTINGS: dict[str, Any] = {"group_initial_delay": timedelta(milliseconds=100)}
PATIENCE_SECONDS = 30
ORDERS = TopicPartition("orders", 0)


class Reader:
    """A consumer that remembers what it read and how often it was given its share."""

    def __init__(self, server: RunningServer, **options: object) -> None:
        self.assigned = 0
        self.values: list[bytes] = []
        times = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 200}
        self._consumer = Consumer(
            {
                "bootstrap.servers": server.address,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                **({} if options.get("group.protocol") == "consumer" else times),
                **options,
            }
        )
        self.owned: frozenset[int] = frozenset()
        self._consumer.subscribe(["orders"], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned += 1
        self.owned |= {one.partition for one in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.owned -= {one.partition for one in partitions}

    def read_until(self, holds: Callable[[], bool], *, polls: int = 0) -> None:
        """Read until it holds, and so many times at least."""
        deadline = patience() + PATIENCE_SECONDS
        while not holds() or polls > 0:
            polls -= 1
            assert patience() < deadline, f"{len(self.values)} read, given a share {self.assigned} times"
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def produce(server: RunningServer, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.address, "linger.ms": 0})
    for value in values:
        producer.produce("orders", value, partition=0)
    assert producer.flush(LONG) == 0


def started(storage: Storage, port: int = 0) -> AbstractContextManager[RunningServer]:
    return running_server(storage=storage, port=port, **SETTINGS)


def test_a_group_does_not_notice_a_restart() -> None:
    storage = MemoryStorage()
    with started(storage) as server:
        port = server.port
        server.log.create_topic("orders", partitions=2)
        produce(server, b"1", b"2")
        reader = Reader(server)
        reader.read_until(lambda: len(reader.values) == 2)
        reader.commit()
    with started(storage, port) as server:
        produce(server, b"3")
        reader.read_until(lambda: len(reader.values) == 3)
        reader.commit()
        assert (reader.assigned, reader.values) == (1, [b"1", b"2", b"3"])
        reader.close()
        assert server.log.group_offsets.fetch("g")[ORDERS].offset == 3


def test_a_group_of_the_consumer_protocol_continues_after_a_power_cut() -> None:
    """Only what was synced is left: members keep their ids, epochs and partitions, and find out nothing."""
    disk, quick = SimulatedDisk(), timedelta(milliseconds=200)
    with running_server(storage=disk, group_consumer_heartbeat_interval=quick) as server:
        port = server.port
        server.log.create_topic("orders", partitions=2)
        produce(server, b"1", b"2")
        first, second = (Reader(server, **{"group.protocol": "consumer"}) for _ in range(2))
        settled = lambda: {first.owned, second.owned} == {frozenset({0}), frozenset({1})}  # noqa: E731
        while not settled():
            for reader in (first, second):
                reader.read_until(lambda: True, polls=1)
        before = described(server)
        changes = first.assigned, second.assigned
        cut = disk.crash(Random(1))
    with running_server(storage=cut, port=port, group_consumer_heartbeat_interval=quick) as server:
        assert described(server) == before
        produce(server, b"3")
        while not {b"1", b"2", b"3"} <= {*first.values, *second.values}:
            for reader in (first, second):
                reader.read_until(lambda: True, polls=1)
        assert described(server) == before
        assert ((first.assigned, second.assigned), settled()) == (changes, True)
        first.close()
        second.close()


def described(server: RunningServer) -> Any:
    return server.look(lambda: server.shared_port.groups.describe_consumer_group("g"))


def test_what_was_committed_survives_a_power_cut_of_data_that_was_not_yet_synced() -> None:
    disk = SimulatedDisk()
    with started(disk) as server:
        server.log.create_topic("orders")
        producer = Producer({"bootstrap.servers": server.address, "acks": 1})
        producer.produce("orders", b"1")
        producer.flush(LONG)
        reader = Reader(server)
        reader.read_until(lambda: len(reader.values) == 1)
        reader.commit()
        cut = disk.crash(Random(1))
        reader.close()
    with started(cut) as server:
        assert server.log.group_offsets.fetch("g")[ORDERS].offset == 1
        assert server.log.partition("orders", 0).end_offset == 1


def generation_of(server: RunningServer) -> int:
    group = server.shared_port.groups._live["g"].group
    assert isinstance(group, Group)
    return group.generation


def test_a_static_member_that_restarts_keeps_its_share() -> None:
    with started(MemoryStorage()) as server:
        server.log.create_topic("orders", partitions=2)
        steady, restarting = (Reader(server, **{"group.instance.id": name}) for name in ("a", "b"))
        steady.read_until(lambda: steady.assigned == 1)
        restarting.read_until(lambda: restarting.assigned == 1)
        generation = server.look(lambda: generation_of(server))
        restarting.close()
        again = Reader(server, **{"group.instance.id": "b"})
        again.read_until(lambda: again.assigned == 1)
        assert server.look(lambda: generation_of(server)) == generation
        again.close()
        steady.close()
