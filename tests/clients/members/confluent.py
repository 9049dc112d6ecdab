"""A group member with confluent-kafka."""

import signal
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.members import arguments, tell, tell_committed, tell_read

stopped: list[int] = []
uncommitted: dict[int, list[int]] = {}
"""Offsets that were read of the partitions that the member has."""


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    settings: dict[str, Any] = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": given.protocol,
    }
    if given.protocol == "classic":
        settings |= {
            "session.timeout.ms": given.session_ms,
            "heartbeat.interval.ms": given.heartbeat_ms,
            "partition.assignment.strategy": "cooperative-sticky" if given.cooperative else "range",
        }
    if given.instance_id:
        settings["group.instance.id"] = given.instance_id
    consumer = Consumer(settings)
    consumer.subscribe([given.topic], on_assign=assigned, on_revoke=revoked)
    while not stopped:
        messages = [message for message in consumer.consume(500, timeout=0.2) if message.error() is None]
        read = [(message.partition() or 0, message.offset() or 0) for message in messages]
        tell_read(read)
        for partition, offset in read:
            uncommitted.setdefault(partition, []).append(offset)
        if uncommitted:
            commit(consumer)
    consumer.close()


def commit(consumer: Consumer) -> None:
    """Once it is committed, no member reads it again. What is refused is committed the next time.

    Unless a rebalance has taken the partition meanwhile: then it is read again, which is allowed.
    """
    try:
        consumer.commit(asynchronous=False)
        tell_committed((partition, offset) for partition, offsets in uncommitted.items() for offset in offsets)
        uncommitted.clear()
    except KafkaException as error:
        print("not committed:", error, flush=True)


def assigned(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    tell("assigned", (one.partition for one in partitions))


def revoked(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    for one in partitions:
        uncommitted.pop(one.partition, None)
    tell("revoked", (one.partition for one in partitions))


if __name__ == "__main__":
    main()
