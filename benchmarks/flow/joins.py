"""Joins: rows a second of an interval, an as-of and a table join, beside Spark's own and Flink SQL's.

Every contender is a process that works twice over the same rows, as for windows. Behind them: how long a batch of the
same size takes a join of tables, and how large its state is, the more keys the tables have.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.flow import join_events, join_state
from benchmarks.flow.apart import Bench
from benchmarks.flow.names import FLINK, HEADWATER, MEMORY, ROCKS, SPARK_STEPPED, STEPPED
from benchmarks.flow.peers.environment import interpreter_of
from benchmarks.flow.peers.row_steps import NONE, SPARK, TRANSLATED
from benchmarks.flow.peers.running import run_twice
from benchmarks.results import Case
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess

SECTION = "joins"
PARTITIONS = 4
KEYS = {"interval": 20_000, "as-of": 1000, "tables": 0}
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Work:
    """The rows of both sides, as topics and as files."""

    kind: str
    rows: int
    topics: tuple[str, str]
    files: tuple[Path, Path]
    folder: Path


Command = Callable[[Work], list[str]]


def measure(bench: Bench) -> None:
    node = start_headwater(bench.folder / "node")
    try:
        for kind in join_events.KINDS:
            work = prepared(bench, node, kind)
            for who, command in contenders(bench, node, kind).items():
                measure_one(bench, who, command, work)
    finally:
        node.stop()
    join_state.measure(bench)


def prepared(bench: Bench, node: BrokerProcess, kind: str) -> Work:
    rows = bench.plan.join_rows
    bench.progress.say(f"joins: making {rows:,} rows of both sides of the {kind} join")
    sides = join_events.inputs(kind, rows, KEYS[kind])
    topics, files = [], []
    for name, side in zip(("left", "right"), sides, strict=True):
        topics.append(f"{kind}-{name}")
        files.append(bench.folder / f"{kind}-{name}.json")
        join_events.write_file(files[-1], side)
        join_events.fill(node.address, topics[-1], side, partitions=PARTITIONS)
    return Work(kind, rows, (topics[0], topics[1]), (files[0], files[1]), bench.folder)


def contenders(bench: Bench, node: BrokerProcess, kind: str) -> Mapping[str, Command]:
    """Who takes part. Spark has no join of a stream as of the time of its rows."""
    batch = str(bench.plan.join_rows_per_batch)

    def headwater(steps: str) -> Command:
        def command(work: Work) -> list[str]:
            folder = str(own_folder(work, f"headwater-{steps}"))
            place = [str(node.data_path), node.address, *work.topics, folder, batch]
            return [sys.executable, "-m", "benchmarks.flow.peers.headwater_joins", work.kind, steps, *place]

        return command

    def spark(store: str) -> Command:
        def command(work: Work) -> list[str]:
            place = [str(node.data_path), *work.topics, str(own_folder(work, store)), batch]
            return [sys.executable, "-m", "benchmarks.flow.peers.spark_joins", work.kind, store, *place]

        return command

    def flink(work: Work) -> list[str]:
        return [str(interpreter_of("flink")), str(PEERS / "flink_joins.py"), work.kind, *map(str, work.files)]

    native = {} if kind == "as-of" else {ROCKS: spark("rocks"), MEMORY: spark("memory")}
    own = {HEADWATER: headwater(NONE), STEPPED: headwater(TRANSLATED), SPARK_STEPPED: headwater(SPARK)}
    return {**own, **native, FLINK: flink}


def own_folder(work: Work, who: str) -> Path:
    folder = work.folder / f"{who}-{work.kind}"
    folder.mkdir(exist_ok=True)
    return folder


def measure_one(bench: Bench, who: str, command: Command, work: Work) -> None:
    bench.progress.say(f"joins: {who}, {work.kind}, {work.rows:,} rows")
    ran = run_twice(bench, who, lambda: command(work), f"the {work.kind} join")
    if ran is None:
        return
    rates = {run: work.rows / seconds for run, seconds in ran.seconds.items()}
    report = {} if ran.results is None else {"results": float(ran.results)}
    case = Case(SECTION, (work.kind,))
    bench.results.add(case, who, cold=rates["cold"], warm=rates["warm"], memory=ran.peak_bytes / 1024**2, **report)
