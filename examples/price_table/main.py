"""A table of prices in a compacted topic, through any Kafka client (here librdkafka's)."""

import sys
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "prices"


def create_table(address: str) -> None:
    table = NewTopic(TOPIC, num_partitions=1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": address})
    try:
        admin.create_topics([table])[TOPIC].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def put(address: str, prices: Mapping[str, str | None]) -> None:
    """Set prices; None takes a good out of the table."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for good, price in prices.items():
        producer.produce(TOPIC, key=good, value=price)
    producer.flush()


def read_table(address: str) -> dict[str, str]:
    """The table as it is now: the newest value of each key, up to the end of the topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "price-table", "enable.auto.commit": False})
    place = TopicPartition(TOPIC, 0, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=10)
    consumer.assign([place])
    table: dict[str, str] = {}
    while consumer.position([place])[0].offset < end:
        for message in consumer.consume(100, timeout=1):
            good, price = (message.key() or b"").decode(), message.value()
            if price is None:
                table.pop(good, None)
            else:
                table[good] = price.decode()
    consumer.close()
    return table


if __name__ == "__main__":
    where = sys.argv[1]
    create_table(where)
    put(where, dict(argument.split("=", 1) for argument in sys.argv[2:]))
    for name, newest in sorted(read_table(where).items()):
        print(f"{name:12} {newest}")
