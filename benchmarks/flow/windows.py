"""Windows: events a second of count and max by key and ten seconds, beside Spark itself, Flink, Pathway and Bytewax.

Every contender is a process that works twice over the same events: cold, from its start to the last result, and warm.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.flow import events
from benchmarks.flow.apart import Bench
from benchmarks.flow.names import BYTEWAX, FLINK, HEADWATER, MEMORY, PATHWAY, ROCKS, SPARK_STEPPED, STEPPED
from benchmarks.flow.peers.environment import interpreter_of
from benchmarks.flow.peers.row_steps import NONE, SPARK, TRANSLATED
from benchmarks.flow.peers.running import run_twice
from benchmarks.results import Case
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess

SECTION = "windows"
PARTITIONS = 8
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Work:
    """What is worked on: the same events as a topic and as a file."""

    kind: str
    keys: int
    count: int
    topic: str
    file: Path
    folder: Path


Command = Callable[[Work], list[str]]


def measure(bench: Bench) -> None:
    node = start_headwater(bench.folder / "node")
    try:
        for kind, keys in (("tumbling", 20_000), ("tumbling", 200_000), ("session", 20_000), ("sliding", 20_000)):
            count = bench.plan.window_events
            work = prepared(bench, node, kind, keys, count)
            few = prepared(bench, node, kind, keys, count // 20)
            for who, command in contenders(bench, node, kind, keys).items():
                measure_one(bench, who, command, few if who == BYTEWAX else work)
    finally:
        node.stop()


def prepared(bench: Bench, node: BrokerProcess, kind: str, keys: int, count: int) -> Work:
    topic, file = f"events-{keys}-{count}", bench.folder / f"events-{keys}-{count}.json"
    if not file.exists():
        bench.progress.say(f"windows: making {count:,} events of {keys:,} keys")
        events.write_file(file, count, keys)
        events.fill(node.address, topic, partitions=PARTITIONS, events=count, keys=keys)
    return Work(kind, keys, count, topic, file, bench.folder)


def contenders(bench: Bench, node: BrokerProcess, kind: str, keys: int) -> Mapping[str, Command]:
    """Who takes part. Spark has no sliding windows, and those from PyPI are tried with the first case alone."""
    rows = str(bench.plan.window_rows_per_batch)

    def headwater(steps: str) -> Command:
        def command(work: Work) -> list[str]:
            place = [str(node.data_path), node.address, work.topic, str(own_folder(work, f"headwater-{steps}")), rows]
            return [sys.executable, "-m", "benchmarks.flow.peers.headwater_windows", work.kind, steps, *place]

        return command

    def spark(store: str) -> Command:
        def command(work: Work) -> list[str]:
            place = [str(node.data_path), work.topic, str(own_folder(work, store)), rows]
            return [sys.executable, "-m", "benchmarks.flow.peers.spark_windows", work.kind, store, *place]

        return command

    def flink(work: Work) -> list[str]:
        return [str(interpreter_of("flink")), str(PEERS / "flink_windows.py"), work.kind, str(work.file)]

    def pypi(peer: str) -> Command:
        return lambda work: [str(interpreter_of(peer)), str(PEERS / f"{peer}_windows.py"), str(work.file)]

    found: dict[str, Command] = {HEADWATER: headwater(NONE), STEPPED: headwater(TRANSLATED)}
    found[SPARK_STEPPED] = headwater(SPARK)
    if kind != "sliding":
        found |= {ROCKS: spark("rocks"), MEMORY: spark("memory")}
    found[FLINK] = flink
    if kind == "tumbling" and keys == 20_000:
        found |= {PATHWAY: pypi("pathway"), BYTEWAX: pypi("bytewax")}
    return found


def own_folder(work: Work, who: str) -> Path:
    folder = work.folder / f"{who}-{work.kind}-{work.keys}"
    folder.mkdir(exist_ok=True)
    return folder


def measure_one(bench: Bench, who: str, command: Command, work: Work) -> None:
    bench.progress.say(f"windows: {who}, {work.kind}, {work.count:,} events of {work.keys:,} keys")
    ran = run_twice(bench, who, lambda: command(work), f"{work.kind} windows")
    if ran is None:
        return
    rates = {run: work.count / seconds for run, seconds in ran.seconds.items()}
    case = Case(SECTION, (work.kind, f"{work.keys:,}"))
    bench.results.add(case, who, cold=rates["cold"], warm=rates["warm"], memory=ran.peak_bytes / 1024**2)
