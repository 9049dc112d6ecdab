"""One end of the latency measurement, in a process of its own.

`produce` sends records at a steady rate, each with the moment of its sending inside; `consume` says "ready", reads
them, and prints how long each was under way, in microseconds, as one line of JSON. Both use the machine's one clock.
"""

import argparse
import json
import struct
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from benchmarks.process_clock import now_seconds

RECORD_BYTES = 100


def produce(address: str, topic: str, *, rate: int, records: int, acks: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": acks, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    padding = bytes(RECORD_BYTES - 8)
    start = now_seconds()
    for number in range(records):
        time.sleep(max(0.0, start + number / rate - now_seconds()))
        producer.produce(topic, struct.pack(">d", now_seconds()) + padding, partition=0)
        producer.poll(0)
    if producer.flush(30):
        raise KafkaException("some records were never answered")


def consume(address: str, topic: str, *, records: int) -> list[int]:
    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.min.bytes": 1})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])  # of a topic that is still empty
    consumer.poll(1)
    print("ready", flush=True)
    delays: list[int] = []
    while len(delays) < records:
        message = consumer.poll(30)
        arrived = now_seconds()
        if message is None or message.error():
            raise KafkaException(f"no more than {len(delays)} of {records} records came")
        (sent,) = struct.unpack_from(">d", message.value() or b"")
        delays.append(int((arrived - sent) * 1e6))
    consumer.close()
    return delays


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["produce", "consume"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("--rate", "--records", "--acks"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    if given.what == "produce":
        produce(given.address, given.topic, rate=given.rate, records=given.records, acks=given.acks)
    else:
        print(json.dumps(consume(given.address, given.topic, records=given.records)))


if __name__ == "__main__":
    main()
