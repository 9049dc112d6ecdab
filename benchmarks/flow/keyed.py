"""Keyed count: rows a second of `count(*)` by user, with few and with many users, beside what Spark itself offers.

All read the same topic through the headwater source in the same batches, and keep their state on the same disk.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import headwater as hw
from benchmarks.flow import orders
from benchmarks.flow.apart import Bench
from benchmarks.flow.names import COUNTED_VIEW, HEADWATER, MEMORY, ROCKS, SPARK_STEPPED, STEPPED, TRANSFORM
from benchmarks.flow.peers.row_steps import NONE, SPARK, TRANSLATED, with_steps
from benchmarks.flow.queries import in_turn, into_nothing, session, settle
from benchmarks.flow.source import headwater_orders
from benchmarks.results import Case
from headwater.clock import SystemClock
from headwater.flow.commit.batch_processor import Progress
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.running_app import RunningApp, RunSettings
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess

SECTION = "keyed"
PARTITIONS = 8
CONTENDERS = (HEADWATER, STEPPED, SPARK_STEPPED, COUNTED_VIEW, ROCKS, MEMORY, TRANSFORM)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKS_PROVIDER, MEMORY_PROVIDER = f"{PROVIDERS}.RocksDBStateStoreProvider", f"{PROVIDERS}.HDFSBackedStateStoreProvider"
# What its users turn on for speed: only changes are uploaded, and nobody counts keys on the way.
ROCKS_SETTINGS = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


class Work(NamedTuple):
    """One run of a contender: what it reads, where it keeps things, and a name nobody else has."""

    topic: str
    rows: int
    folder: Path
    name: str


Contender = Callable[[Work], float]
"""The seconds that all batches took."""


def measure(bench: Bench) -> None:
    node = start_headwater(bench.folder / "node")
    try:
        with session(bench.folder, settings=ROCKS_SETTINGS) as spark:
            # As many as headwater's shards: Spark's default of 200 is known to be wrong for a small machine.
            spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
            found = contenders(spark, node, bench)
            for users in bench.plan.keys:
                measure_users(bench, found, node, users)
    finally:
        node.stop()


def measure_users(bench: Bench, contenders: dict[str, Contender], node: BrokerProcess, users: int) -> None:
    plan, case = bench.plan, Case(SECTION, (f"{users:,}",))
    rows = {
        "warm": plan.warm_up_rows,
        "all": plan.keyed_rows,
        "least": plan.transform_rows // 10,
        "few": plan.transform_rows,
    }
    for size, count in rows.items():
        bench.progress.say(f"keyed: filling a topic with {count:,} rows of {users:,} users")
        orders.fill(node.address, f"{size}-{users}", partitions=PARTITIONS, rows=count, users=users)

    def run(name: str, size: str, of: str) -> float:
        own = f"keyed-{users}-{CONTENDERS.index(name)}-{of}"
        work = Work(f"{size}-{users}", rows[size], bench.folder / "checkpoints" / own, own)
        return rows[size] / contenders[name](work)

    for name in contenders:
        bench.progress.say(f"keyed: warming up {name}")
        run(name, "least" if name == TRANSFORM else "warm", "warm")
    for number in range(plan.rounds):
        for name in in_turn(contenders, number):
            if name == TRANSFORM and number > 0:
                continue
            bench.progress.say(f"keyed: round {number + 1} of {plan.rounds}, {name}, {users:,} users")
            bench.results.add(case, name, rows=run(name, "few" if name == TRANSFORM else "all", str(number)))


def contenders(spark: SparkSession, node: BrokerProcess, bench: Bench) -> dict[str, Contender]:
    rows = bench.plan.keyed_rows_per_batch
    settings = RunSettings(node.data_path, node.address, once=True, rows_per_batch=rows)

    def read(work: Work) -> DataFrame:
        return headwater_orders(spark, node.data_path, work.topic, rows_per_batch=str(rows))

    def counted(steps: str, *, into_view: bool) -> Contender:
        return lambda work: app_seconds(counting_app(work, steps, into_view=into_view), work, spark, settings)

    def native(provider: str) -> Contender:
        def count(work: Work) -> float:
            spark.conf.set(PROVIDER, provider)
            return into_nothing(read(work).groupBy("user_id").count(), work.folder, rows=work.rows, mode="update")

        return count

    def transformed(work: Work) -> float:
        spark.conf.set(PROVIDER, ROCKS_PROVIDER)
        counted = read(work).groupBy("user_id").transformWithStateInPandas(
            Counting(), "user_id long, count long", "Update", "none"
        )  # fmt: skip
        return into_nothing(counted, work.folder, rows=work.rows, mode="update")

    made: tuple[Contender, ...] = (
        *(counted(steps, into_view=False) for steps in (NONE, TRANSLATED, SPARK)),
        counted(NONE, into_view=True),
        native(ROCKS_PROVIDER),
        native(MEMORY_PROVIDER),
        transformed,
    )
    return dict(zip(CONTENDERS, made, strict=True))


def counting_app(work: Work, steps: str, *, into_view: bool) -> hw.App:
    app = hw.App(work.name)
    counted = counted_by_user(steps, app, work.topic)
    if into_view:
        app.view(key="user_id", name="counts")(lambda: counted)
    else:
        app.sink(hw.sinks.Foreach(lambda rows, batch: None), name="nothing")(lambda: counted)
    return app


def counted_by_user(steps: str, app: hw.App, topic: str) -> Any:
    rows = app.stream(topic, orders.SCHEMA, time="at")
    return with_steps(rows, steps, number="amount", text="currency", others=["user_id", "at"]).by("user_id").count()


def app_seconds(app: hw.App, work: Work, spark: SparkSession, settings: RunSettings) -> float:
    """Run it as `headwater run --once` does, and have it count every row."""
    counted: list[int] = []
    milliseconds: list[int] = []

    def watch(job: str, progress: Progress) -> None:
        """From the planning of a batch to its end, as `batch_seconds` counts those of others."""
        folder = JobFolder(settings.data / "flows" / app.name / job)
        milliseconds.append(SystemClock().now_ms() - folder.planned(progress.record.batch).time_ms)
        counted.extend(one.rows_out for one in progress.record.accounts.values())

    settle()
    running = RunningApp(app, spark, settings, watch=watch)
    try:
        running.start()
        running.wait()
        if sum(counted) != work.rows:
            raise RuntimeError(f"the app {app.name} has counted {sum(counted):,} rows of {work.rows:,}")
        return sum(milliseconds) / 1000
    finally:
        running.stop()


class Counting(StatefulProcessor):
    """The same count, as Spark lets one write it in Python."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(len(frame) for frame in rows)
        self._count.update((count,))
        yield pd.DataFrame({"user_id": [key[0]], "count": [count]})

    def close(self) -> None:
        """Nothing is held."""
