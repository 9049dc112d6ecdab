"""The queries of Nexmark as an app, and events for it: python -m examples.nexmark.main HOST:PORT COUNT writes them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

import headwater as hw
from examples.nexmark.generator import events

FOLDER = Path(__file__).parent
NUMBERS = range(23)
PARTS = 10
"""Rows of the table that q13 looks up."""


def app_of(queries: Sequence[str], name: str = "nexmark") -> hw.App:
    app = hw.App(name)
    for file in (FOLDER / "tables.sql", *(FOLDER / "queries" / f"{query}.sql" for query in queries)):
        app.sql(file.read_text())
    return app


def side_input() -> list[dict[str, object]]:
    return [{"key": key, "value": f"value {key}"} for key in range(PARTS)]


def write(address: str, count: int, seed: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    for row in side_input():
        producer.produce("side_input", json.dumps(row).encode(), key=json.dumps({"key": row["key"]}).encode())
    for topic, row in events(seed, count):
        producer.produce(topic, json.dumps(row).encode())
        producer.poll(0)
    producer.flush()


app = app_of([f"q{number}" for number in NUMBERS])

if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
