"""A group member with aiokafka."""

import asyncio
import signal
from collections.abc import Collection

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.clients.members import arguments, tell, tell_read


class Teller(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is not typed
    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        tell("assigned", (one.partition for one in assigned))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        tell("revoked", (one.partition for one in revoked))


async def main() -> None:
    given = arguments()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance_id or None,
        session_timeout_ms=given.session_ms,
        heartbeat_interval_ms=given.heartbeat_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([given.topic], listener=Teller())
    await consumer.start()
    while not stopped.is_set():
        polled = await consumer.getmany(timeout_ms=200)
        if polled:
            tell_read((record.partition, record.offset) for records in polled.values() for record in records)
            await commit(consumer)
    await consumer.stop()


async def commit(consumer: AIOKafkaConsumer) -> None:
    try:
        await consumer.commit()
    except KafkaError as error:
        # A rebalance may have taken the partitions meanwhile: they are read again, which is allowed.
        print("not committed:", error, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
