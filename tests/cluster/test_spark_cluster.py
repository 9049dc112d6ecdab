"""Flows on a cluster of Spark: executors that never saw headwater, that are killed, added, and outrun by others.

A node plays Kafka, and all hosts are this machine; namespaces, Apache Kafka and PostgreSQL's host come with
`make cluster`.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from headwater import Node, NodeSettings, WireSettings
from headwater.record import Record
from tests.cluster.books import read_all
from tests.cluster.hosts import LOOPBACK, Host
from tests.cluster.spark_cluster import SparkCluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.on_spark, pytest.mark.timeout(1800)]

HERE = Host("here", LOOPBACK)
CITIES = ["Lund", "Oslo", "Kiel"]
STILL_SECONDS = 180
"""As long as Spark waits for an executor that says nothing, and a little more."""
ROWS, ROWS_PER_BATCH = 80_000, 20_000
FEW_PER_BATCH = 2_000
"""So that the run is not over before another worker is there."""

HELPER = """
def shout(text):
    return None if text is None else text.upper()
"""

APP = """
import headwater as hw
from prices import shout
from pyspark.sql import functions as f

app = hw.App("shop", shards=2)
orders = app.stream("orders", "id long, city string, cents long, at timestamp", time="at", lateness="1 hour")


@app.view(key="city")
def revenue():
    return orders.by("city").agg("count(*) as orders", "sum(cents) as cents")


@app.view(key="id")
def newest():
    return orders.latest("id")


@app.view(key="loud")
def loud():
    return orders.with_columns(loud=f.udf(shout, "string")(f.col("city"))).by("loud").agg("count(*) as orders")


@app.topic("large", key="id", partitions=4)
def large():
    return orders.where("cents >= 500").select("id", "city", "cents")
"""


def order(number: int) -> dict[str, object]:
    at = f"2026-03-01T09:{number // 60 % 60:02}:{number % 60:02}Z"
    return {"id": number, "city": CITIES[number % 3], "cents": number % 1000, "at": at}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Node(tmp_path_factory.mktemp("broker"), NodeSettings(wire=WireSettings(port=0))) as node:
        node.log.create_topic("orders", partitions=4)
        rows = [Record(json.dumps(order(number)).encode(), str(number).encode()) for number in range(ROWS)]
        for first in range(0, ROWS, 5_000):
            node.log.append("orders", rows[first : first + 5_000])
        yield node.kafka_address


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path / "spark", HERE, [HERE, HERE])
    try:
        cluster.start_master()
        cluster.start_worker(0)
        yield cluster
    finally:
        cluster.stop()


class Run:
    """The app, run once over all that is there, a batch after the other."""

    def __init__(self, folder: Path, spark: SparkCluster, broker: str, store: str) -> None:
        self.folder, self.log, self.broker = folder, folder / "run.log", broker
        (folder / "shop.py").write_text(APP.replace('"large"', f'"large-{folder.name}"'))
        (folder / "prices.py").write_text(HELPER)
        self.large = f"large-{folder.name}"
        self._where = ["--data", str(folder / "data"), "--log", f"kafka://{broker}", "--master", spark.master,
                       "--conf", f"spark.pyspark.python={spark.python}", "--conf", "spark.executor.memory=640m",
                       "--conf", "spark.headwater.driverRows=0", "--store", store]  # fmt: skip

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "headwater", *words, *self._where]

    @contextmanager
    def running(self, *conf: str, rows: int = ROWS_PER_BATCH) -> Iterator["subprocess.Popen[bytes]"]:
        more = [word for one in conf for word in ("--conf", one)]
        words = ["run", "shop.py", "--once", "--json", "--rows-per-batch", str(rows), *more]
        with self.log.open("wb") as said:
            process = subprocess.Popen(
                self.command(*words), cwd=self.folder, stdout=said, stderr=said, start_new_session=True
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def batches(self) -> int:
        return sum(line.startswith("{") for line in self.log.read_text().splitlines())

    def until(self, process: "subprocess.Popen[bytes]", reached: Callable[[], bool]) -> None:
        wait_until(lambda: process.poll() is not None or reached(), "the run gets on", seconds=STILL_SECONDS)
        assert process.poll() is None, self.log.read_text()

    def ends_well(self, process: "subprocess.Popen[bytes]") -> None:
        wait_until(lambda: process.poll() is not None, "the run ends", seconds=STILL_SECONDS)
        assert process.returncode == 0, self.log.read_text()

    def is_right(self, store: str) -> None:
        """Every output has every row once, as plain Python says."""
        orders = [order(number) for number in range(ROWS)]
        with psycopg.connect(store) as connection:
            revenue = connection.execute("SELECT city, orders, cents FROM shop.revenue").fetchall()
            newest = connection.execute("SELECT count(*), sum(cents) FROM shop.newest").fetchone()
            loud = connection.execute("SELECT loud, orders FROM shop.loud").fetchall()
        cities = Counter(one["city"] for one in orders)
        cents = {city: sum(int(str(one["cents"])) for one in orders if one["city"] == city) for city in CITIES}
        assert sorted(revenue) == [(city, cities[city], cents[city]) for city in sorted(CITIES)]
        assert newest == (ROWS, sum(cents.values()))
        assert sorted(loud) == [(city.upper(), cities[city]) for city in sorted(CITIES)]
        found = Counter(json.loads(value or b"{}")["id"] for _, value in read_all(self.broker, self.large))
        assert found == Counter(one["id"] for one in orders if int(str(one["cents"])) >= 500)


@pytest.fixture
def run(tmp_path: Path, spark: SparkCluster, broker: str, postgres_url: str) -> Run:
    return Run(tmp_path, spark, broker, postgres_url)


def test_the_package_reaches_executors_and_an_executor_that_is_killed_costs_nothing(
    run: Run, spark: SparkCluster, postgres_url: str
) -> None:
    spark.start_worker(1)
    with run.running() as process:
        run.until(process, lambda: run.batches() >= 1)
        assert spark.kill_executor(0) + spark.kill_executor(1) == 2
        run.ends_well(process)
    run.is_right(postgres_url)
    proved = subprocess.run(run.command("verify"), cwd=run.folder, capture_output=True, text=True, check=False)
    assert proved.returncode == 0, proved.stdout + proved.stderr


@pytest.mark.torture
def test_an_executor_that_comes_later_takes_part(run: Run, spark: SparkCluster, postgres_url: str) -> None:
    more = ("spark.dynamicAllocation.enabled=true", "spark.dynamicAllocation.minExecutors=1",
            "spark.dynamicAllocation.executorIdleTimeout=5s",
            "spark.dynamicAllocation.schedulerBacklogTimeout=1s")  # fmt: skip
    with run.running(*more, rows=FEW_PER_BATCH) as process:
        run.until(process, lambda: run.batches() >= 1)
        spark.start_worker(1)
        run.until(process, lambda: bool(spark.executors(1)))
        run.ends_well(process)
    run.is_right(postgres_url)


@pytest.mark.torture
def test_a_task_that_is_outrun_by_its_copy_writes_nothing_twice(
    run: Run, spark: SparkCluster, postgres_url: str
) -> None:
    spark.start_worker(1)
    more = ("spark.speculation=true", "spark.speculation.interval=100ms", "spark.speculation.multiplier=1.1",
            "spark.speculation.quantile=0.1", "spark.speculation.minTaskRuntime=50ms",
            "spark.speculation.task.duration.threshold=2s")  # fmt: skip
    with run.running(*more) as process:
        run.until(process, lambda: run.batches() >= 1)
        paused = spark.pause_executor(0, only_python=True)
        before = run.batches()
        try:
            run.until(process, lambda: run.batches() > before)  # the copies on the other executor have done it
        finally:
            spark.resume(paused)
        run.ends_well(process)
    run.is_right(postgres_url)
