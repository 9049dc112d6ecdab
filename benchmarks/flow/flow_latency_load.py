"""Both ends of a flow's latency, each in a process of its own.

`produce` sends orders at a steady rate and prints when it sent each; `watch` prints when it saw the view at which
position, whenever that has changed. Both print one line of JSON, and use the machine's one clock.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaException, Producer

from benchmarks.flow import orders
from benchmarks.flow.flow_latency import APP, PATIENCE_SECONDS, TOPIC, USERS, VIEW
from benchmarks.process_clock import now_seconds
from headwater.views.view import View

LOOK_EVERY_SECONDS = 0.005


def produce(address: str, *, rate: int, records: int) -> list[float]:
    producer = Producer({"bootstrap.servers": address, "acks": -1, "linger.ms": 0})
    producer.list_topics(TOPIC, timeout=10)
    users = np.random.default_rng(7).integers(0, USERS, records)
    values = orders.values_of(np.arange(records, dtype=np.int64), users).to_pylist()
    sent: list[float] = []
    start = now_seconds()
    for number, value in enumerate(values):
        time.sleep(max(0.0, start + number / rate - now_seconds()))
        sent.append(now_seconds())
        producer.produce(TOPIC, value, partition=0)
        producer.poll(0)
    if producer.flush(30):
        raise KafkaException("some records were never answered")
    return sent


def watch(data: Path, *, first: int, records: int, rate: int) -> list[tuple[float, int]]:
    """Until the view includes all of them."""
    seen: list[tuple[float, int]] = []
    deadline = now_seconds() + records / rate + PATIENCE_SECONDS / 2
    with View.open(data, APP, VIEW) as view:
        position = first
        while position < first + records:
            now_at = view.position().get(TOPIC, {}).get(0, 0)
            if now_at > position:
                position = now_at
                seen.append((now_seconds(), position))
            if now_seconds() > deadline:
                raise RuntimeError(f"the view has come to {position}, and {first + records} was to be reached")
            time.sleep(LOOK_EVERY_SECONDS)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["produce", "watch"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    if given.what == "produce":
        print(json.dumps(produce(given.address, rate=given.rate, records=given.records)))
    else:
        print(json.dumps(watch(given.data, first=given.first, records=given.records, rate=given.rate)))


if __name__ == "__main__":
    main()
