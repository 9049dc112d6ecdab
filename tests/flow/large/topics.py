"""What is in a topic, read by a client that we did not write."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.waiting import LONG

TOGETHER = 10_000


def read_values(address: str, topic: str) -> Iterator[bytes]:
    """All values, partition by partition; tombstones are passed over."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False})
    try:
        for number in sorted(consumer.list_topics(topic, timeout=LONG).topics[topic].partitions):
            yield from _partition(consumer, TopicPartition(topic, number, OFFSET_BEGINNING))
    finally:
        consumer.close()


def _partition(consumer: Consumer, place: TopicPartition) -> Iterator[bytes]:
    _, end = consumer.get_watermark_offsets(place, timeout=LONG)
    consumer.assign([place])
    position = 0
    while position < end:
        messages = consumer.consume(TOGETHER, timeout=LONG if position == 0 else 5)
        assert messages, f"{place.topic}/{place.partition} ends at {end}, and nothing comes behind {position}"
        for message in messages:
            assert message.error() is None, str(message.error())
            value, offset = message.value(), message.offset()
            assert offset is not None
            position = offset + 1
            if value is not None:
                yield value
