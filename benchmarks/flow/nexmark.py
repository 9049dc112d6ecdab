"""Nexmark's queries: events a second, CPU seconds and memory of each, beside Flink SQL's.

Every contender is a process for each query that works twice over the same events, as for windows. Flink reads them
from two files for each table, so that both of its tasks read, with the settings that Nexmark gives it.
"""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.flow.apart import Bench
from benchmarks.flow.names import FLINK, HEADWATER
from benchmarks.flow.peers.environment import interpreter_of
from benchmarks.flow.peers.running import run_twice
from benchmarks.results import Case
from examples.nexmark.batch import TABLES, flink_side_input
from examples.nexmark.generator import BEGIN, events
from examples.nexmark.main import FOLDER, NUMBERS, side_input
from headwater.flow.kafka.client import Client
from headwater.flow.source.times.punctuation import HEADER
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess

SECTION = "nexmark"
SEED = 1
PARTITIONS = 2
BETWEEN_EVENTS = timedelta(microseconds=100)
END: dict[str, str | bytes | None] = {HEADER: str(10**13)}
"""Nothing more comes: all windows are over, as they are for Flink at the end of its files."""
PEERS = Path(__file__).parent / "peers"
Command = Callable[[str], list[str]]


def measure(bench: Bench) -> None:
    node = start_headwater(bench.folder / "node")
    try:
        make(bench, node, bench.folder / "tables")
        for number in NUMBERS:
            for who, command in contenders(bench, node).items():
                measure_one(bench, who, f"q{number}", command)
    finally:
        node.stop()


def make(bench: Bench, node: BrokerProcess, folder: Path) -> None:
    """The events as topics and as files, spread to partitions and files one by one."""
    count = bench.plan.nexmark_events
    bench.progress.say(f"nexmark: making {count:,} events")
    with Client(node.address) as client:
        for name in TABLES:
            client.create_topic(name, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 20})
    with ExitStack() as closing:
        files = {}
        for name in TABLES:
            (folder / name).mkdir(parents=True)
            paths = [folder / name / f"{partition}.json" for partition in range(PARTITIONS)]
            files[name] = [closing.enter_context(path.open("w")) for path in paths]
        before_ms = int(BEGIN.timestamp() * 1000) - 1
        for row in side_input():
            key = json.dumps({"key": row["key"]})
            producer.produce("side_input", json.dumps(row), key=key, partition=0, timestamp=before_ms)
        files["side_input"][0].writelines(json.dumps(row) + "\n" for row in flink_side_input())
        counts = dict.fromkeys(TABLES, 0)
        for number, (name, row) in enumerate(events(SEED, count, BETWEEN_EVENTS)):
            counts[name] += 1
            partition, text = counts[name] % PARTITIONS, json.dumps(row)
            at_ms = int((BEGIN + number * BETWEEN_EVENTS).timestamp() * 1000)
            producer.produce(name, text, partition=partition, timestamp=at_ms)
            producer.poll(0)
            files[name][partition].write(text + "\n")
    for name in TABLES:
        for partition in range(PARTITIONS):
            producer.produce(name, None, partition=partition, headers=END)
    producer.flush()


def contenders(bench: Bench, node: BrokerProcess) -> Mapping[str, Command]:
    def headwater(query: str) -> list[str]:
        folder = bench.folder / f"headwater-{query}"
        folder.mkdir()
        where = [str(node.data_path), node.address, str(folder), str(bench.plan.nexmark_rows_per_batch)]
        return [sys.executable, "-m", "benchmarks.flow.peers.headwater_nexmark", query, *where]

    def flink(query: str) -> list[str]:
        files = [str(FOLDER / "flink.sql"), str(bench.folder / "tables")]
        return [str(interpreter_of("flink")), str(PEERS / "flink_nexmark.py"), "run", *files, query]

    return {HEADWATER: headwater, FLINK: flink}


def measure_one(bench: Bench, who: str, query: str, command: Command) -> None:
    count = bench.plan.nexmark_events
    bench.progress.say(f"nexmark: {who}, {query}, {count:,} events")
    ran = run_twice(bench, who, lambda: command(query), query)
    if ran is None:
        return
    rates = {run: count / seconds for run, seconds in ran.seconds.items()}
    bench.results.add(
        Case(SECTION, (query,)), who, cold=rates["cold"], warm=rates["warm"], cpu=ran.processor_seconds["warm"],
        memory=ran.peak_bytes / 1024**2,
    )  # fmt: skip
