"""Where the CPU seconds of flows go: by process while Spark runs their tasks, and by stage.

Each flow is run over the same rows, after a run that warms up: in Spark, for the CPU seconds of its processes; and with
all tasks in this process, for those of the stages (stage_clock.py).
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import headwater as hw
from benchmarks.flow import events, join_events, orders
from benchmarks.flow.apart import Bench
from benchmarks.flow.joins import KEYS as JOIN_KEYS
from benchmarks.flow.joins import PARTITIONS as JOIN_PARTITIONS
from benchmarks.flow.keyed import PARTITIONS, counted_by_user
from benchmarks.flow.names import HEADWATER
from benchmarks.flow.peers.headwater_joins import joined_by
from benchmarks.flow.peers.headwater_runs import app_of
from benchmarks.flow.peers.headwater_windows import windowed
from benchmarks.flow.peers.resident import family
from benchmarks.flow.peers.row_steps import NONE
from benchmarks.flow.queries import session, settle
from benchmarks.flow.stage_clock import StageClock
from benchmarks.flow.stage_names import DRIVER, JVM, WORKERS
from benchmarks.results import Case
from headwater.flow.commit.batch_evaluation import DRIVER_ROWS
from headwater.flow.operate import level_blocks
from headwater.flow.run.running_app import RunningApp, RunSettings
from tests.clients.brokers.headwater_node import start_headwater

SECTION = "stages"
KEYS = 20_000
NO_BOUND = 2**40

Declare = Callable[[hw.App], Any]


def measure(bench: Bench) -> None:
    node = start_headwater(bench.folder / "node")
    plan = bench.plan
    try:
        with session(bench.folder) as spark:
            for name, rows, declare in flows(bench, node.address):
                batch = plan.join_rows_per_batch if name in join_events.KINDS else plan.window_rows_per_batch
                settings = RunSettings(node.data_path, node.address, once=True, rows_per_batch=batch)
                bench.progress.say(f"stages: {name}, {rows:,} rows")
                measure_one(bench, Case(SECTION, (name, f"{rows:,}")), declare, spark, settings)
    finally:
        node.stop()


def flows(bench: Bench, address: str) -> Iterator[tuple[str, int, Declare]]:
    """Names, rows and declarations; their topics are filled on the way."""
    plan = bench.plan
    orders.fill(address, "orders", partitions=PARTITIONS, rows=plan.keyed_rows, users=KEYS)
    yield "count by key", plan.keyed_rows, lambda app: counted_by_user(NONE, app, "orders")
    events.fill(address, "events", partitions=PARTITIONS, events=plan.window_events, keys=KEYS)
    for kind in ("tumbling", "session", "sliding"):
        yield kind, plan.window_events, partial(windowed_by, kind)
    for kind in join_events.KINDS:
        for topic, side in zip(topics_of(kind), join_events.inputs(kind, plan.join_rows, JOIN_KEYS[kind]), strict=True):
            join_events.fill(address, topic, side, partitions=JOIN_PARTITIONS)
        yield kind, plan.join_rows, partial(joined_of, kind)


def windowed_by(kind: str, app: hw.App) -> Any:
    return windowed(kind, NONE, app, "events")


def topics_of(kind: str) -> tuple[str, str]:
    return f"{kind}-left", f"{kind}-right"


def joined_of(kind: str, app: hw.App) -> Any:
    return joined_by(kind, NONE, app, *topics_of(kind))


def measure_one(bench: Bench, case: Case, declare: Declare, spark: SparkSession, settings: RunSettings) -> None:
    name = "-".join(case.words).replace(" ", "-").replace(",", "")

    def run(which: str) -> None:
        settle()
        running = RunningApp(app_of(f"{name}-{which}", declare, []), spark, settings)
        try:
            running.start()
            running.wait()
        finally:
            running.stop()

    run("first")
    before = processor_seconds()
    run("spark")
    spent = {process: seconds - before[process] for process, seconds in processor_seconds().items()}
    clock = StageClock()
    with everything_in_driver(spark):
        run("driver-first")
        with clock.installed():
            run("driver")
    bench.results.add(case, HEADWATER, **spent, **clock.seconds)


def processor_seconds() -> dict[str, float]:
    """Of this process, of Spark's JVM, and of its Python workers, those that have ended too."""
    found: dict[str, float] = defaultdict(float)
    tick = os.sysconf("SC_CLK_TCK")
    for process in family(os.getpid()):
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:  # it has ended
            continue
        own = sum(map(int, text.rpartition(")")[2].split()[11:13])) / tick
        ended = sum(map(int, text.rpartition(")")[2].split()[13:15])) / tick
        if process == os.getpid():
            found[DRIVER] += own
        elif "(java)" in text:
            found[JVM] += own
        else:
            found[WORKERS] += own + ended
    return found


@contextmanager
def everything_in_driver(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(DRIVER_ROWS, None)
    spark.conf.set(DRIVER_ROWS, str(NO_BOUND))
    with patch.object(level_blocks, "DRIVER_BYTES", NO_BOUND):
        yield
    if before is None:
        spark.conf.unset(DRIVER_ROWS)
    else:
        spark.conf.set(DRIVER_ROWS, before)
