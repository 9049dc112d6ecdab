"""A group member with kafka-python."""

import signal
from collections.abc import Collection
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tests.clients.members import arguments, tell, tell_read

stopped: list[int] = []


class Teller(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is not typed
    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        tell("assigned", (one.partition for one in partitions))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        tell("revoked", (one.partition for one in partitions))


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    assignor = CooperativeStickyAssignor if given.cooperative else RangePartitionAssignor
    consumer = KafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance_id or None,
        session_timeout_ms=given.session_ms,
        heartbeat_interval_ms=given.heartbeat_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
    )
    consumer.subscribe([given.topic], listener=Teller())
    while not stopped:
        polled = consumer.poll(timeout_ms=200)
        if polled:
            tell_read((record.partition, record.offset) for records in polled.values() for record in records)
            commit(consumer)
    consumer.close()


def commit(consumer: Any) -> None:
    try:
        consumer.commit()
    except KafkaError as error:
        # A rebalance may have taken the partitions meanwhile: they are read again, which is allowed.
        print("not committed:", error, flush=True)


if __name__ == "__main__":
    main()
