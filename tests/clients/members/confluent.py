"""A group member with confluent-kafka."""

import signal
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.clients.members import arguments, tell, tell_committed, tell_read

stopped: list[int] = []


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
        if messages:
            tell_read((message.partition() or 0, message.offset() or 0) for message in messages)
            commit(consumer, messages)
    consumer.close()


def commit(consumer: Consumer, messages: Sequence[Message]) -> None:
    """Once it is committed, no member reads it again."""
    try:
        consumer.commit(asynchronous=False)
        tell_committed((message.partition() or 0, message.offset() or 0) for message in messages)
    except KafkaException as error:
        # A rebalance may have taken the partitions meanwhile: they are read again, which is allowed.
        print("not committed:", error, flush=True)


def assigned(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    tell("assigned", (one.partition for one in partitions))


def revoked(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    tell("revoked", (one.partition for one in partitions))


if __name__ == "__main__":
    main()
