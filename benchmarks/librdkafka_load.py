"""Load through confluent-kafka, the same client for every broker, in a process of its own.

`python -m benchmarks.librdkafka_load produce|fetch ...` prints what it did as one line of JSON. The Python side is kept
thin, so that librdkafka is what is measured with the broker: whole batches of messages are handed over, and only
failed deliveries are reported.
"""

import argparse
import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.process_clock import Meter

HANDED_OVER_AT_ONCE = 5_000
READ_AT_ONCE = 10_000

Figures = dict[str, float]


def produce(address: str, topic: str, partitions: int, *, size: int, records: int, acks: int) -> Figures:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": acks,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
        }
    )
    failures: list[KafkaError] = []

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer.list_topics(topic, timeout=10)
    messages = [{"value": b"x" * size}] * HANDED_OVER_AT_ONCE
    meter, sent = Meter(), 0
    while sent < records and not failures:
        # One partition at a time, in turn: what a partitioner that sticks to a batch does, at no cost per record.
        partition = sent // HANDED_OVER_AT_ONCE % partitions
        wanted = min(HANDED_OVER_AT_ONCE, records - sent)
        taken = producer.produce_batch(topic, messages[:wanted], partition=partition, on_delivery=report)
        sent += taken
        producer.poll(0.02 if taken < wanted else 0)
    left = producer.flush(120)
    figures = meter.report(records=sent)
    if failures or left:
        raise KafkaException(failures[0] if failures else f"{left} records were never answered")
    return figures


def fetch(address: str, topic: str, partitions: int, *, records: int) -> Figures:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.min.messages": 500_000,
            # With a full queue it would pause for a second by default, which measures nothing of the broker.
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.list_topics(topic, timeout=10)
    meter, read = Meter(), 0
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    while read < records:
        messages = consumer.consume(min(READ_AT_ONCE, records - read), timeout=30)
        if not messages:
            raise KafkaException(f"no more than {read} of {records} records came")
        read += len(messages)
    figures = meter.report(records=read)
    consumer.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["produce", "fetch"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("--partitions", "--size", "--records"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--acks", type=int, default=1)
    given = parser.parse_args()
    if given.what == "produce":
        figures = produce(
            given.address, given.topic, given.partitions, size=given.size, records=given.records, acks=given.acks
        )
    else:
        figures = fetch(given.address, given.topic, given.partitions, records=given.records)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
