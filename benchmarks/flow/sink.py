"""Sink: how many rows a second a view takes, beside the `foreachBatch` with JDBC that a Spark user writes by hand.

Each is a streaming query that reads the same topic and upserts its rows by their id: once into an empty table, where
all are new, and once more, where all are there.
"""

from collections.abc import Callable
from functools import partial

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.flow import orders
from benchmarks.flow.apart import Bench
from benchmarks.flow.jars import Peer, postgres_driver
from benchmarks.flow.names import JDBC, POSTGRES, SQLITE
from benchmarks.flow.postgres_server import listening_postgres
from benchmarks.flow.queries import finished, in_turn, session
from benchmarks.flow.source import headwater_orders
from benchmarks.results import Case
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.sinks.view import ViewSink
from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable

SECTION = "sink"
PARTITIONS = 8
NEW, THERE = "new", "there already"
APP = "bench"
SECOND_PASS = 1_000_000
"""Added to batch numbers: a sink does not take a batch twice."""

Write = Callable[[DataFrame, int], None]
Contender = Callable[[str], Write]
"""Given the name of a table, which is made, what takes batches into it."""


def measure(bench: Bench) -> None:
    driver = find_driver(bench)
    node = start_headwater(bench.folder / "node")
    try:
        with (
            listening_postgres() as server,
            session(bench.folder, jars=[driver.jars] if driver else []) as spark,
        ):
            measure_all(bench, spark, node, contenders(bench, server, driver))
    finally:
        node.stop()


def find_driver(bench: Bench) -> Peer | None:
    try:
        return postgres_driver()
    except NotAvailable as reason:
        bench.notices.append(f"PostgreSQL's JDBC driver is missing here: {reason}")
        return None


def measure_all(bench: Bench, spark: SparkSession, node: BrokerProcess, contenders: dict[str, Contender]) -> None:
    plan, names = bench.plan, list(contenders)
    sizes = {"warm-up": plan.sink_rows_per_batch, "orders": plan.sink_rows}
    for topic, rows in sizes.items():
        bench.progress.say(f"sink: filling {topic} with {rows:,} rows")
        orders.fill(node.address, topic, partitions=PARTITIONS, rows=rows, users=plan.sink_rows)

    def run(topic: str, write: Write, checkpoint: str) -> float:
        frame = headwater_orders(spark, node.data_path, topic, rows_per_batch=str(plan.sink_rows_per_batch))
        place = bench.folder / "checkpoints" / checkpoint
        return sizes[topic] / finished(frame.writeStream.foreachBatch(write), place, rows=sizes[topic])

    for place, name in enumerate(names):
        bench.progress.say(f"sink: warming up {name}")
        run("warm-up", contenders[name](f"warm_{place}"), f"{place}-warm")
    for number in range(plan.rounds):
        for name in in_turn(contenders, number):
            bench.progress.say(f"sink: round {number + 1} of {plan.rounds}, {name}")
            place = names.index(name)
            write = contenders[name](f"orders_{place}_{number}")
            bench.results.add(Case(SECTION, (NEW,)), name, rows=run("orders", write, f"{place}-{number}-new"))
            again = partial(renumbered, write)
            bench.results.add(Case(SECTION, (THERE,)), name, rows=run("orders", again, f"{place}-{number}-there"))


def renumbered(write: Write, frame: DataFrame, batch: int) -> None:
    write(frame, batch + SECOND_PASS)


def contenders(bench: Bench, server: str, driver: Peer | None) -> dict[str, Contender]:
    url = f"postgresql://postgres@{server}/postgres"
    found: dict[str, Contender] = {
        POSTGRES: lambda table: into_view(url, table),
        SQLITE: lambda table: into_view(f"sqlite:///{bench.folder}/views.sqlite", table),
    }
    return {**found, JDBC: lambda table: by_jdbc(server, url, table)} if driver else found


def into_view(url: str, table: str) -> Write:
    """What a job does with the rows of an output: they pass through the driver as Arrow."""
    sink = ViewSink(open_store(url, APP), table)
    sink.prepare(pa.schema([(field.name, field.type) for field in parse_ddl(orders.SCHEMA).fields]), ["id"])

    def write(frame: DataFrame, batch: int) -> None:
        rows = frame.withColumn("_op", f.lit("u")).toArrow()
        sink.write(Mark(APP, batch, {}), rows)

    return write


def by_jdbc(server: str, url: str, table: str) -> Write:
    """Many rows in one statement into a table that is not logged, and from there in one statement to where they belong.

    It notes no batch, so a batch that comes again is upserted again.
    """
    columns = "id text {}, user_id bigint, amount numeric(12,2), currency text, at timestamptz"
    names = [part.split()[0] for part in columns.split(", ")]
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {table} ({columns.format('PRIMARY KEY')})".encode())
        connection.execute(f"CREATE UNLOGGED TABLE {table}_stage ({columns.format('')})".encode())
    changed = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    merge = f"INSERT INTO {table} SELECT {', '.join(names)} FROM {table}_stage ON CONFLICT (id) DO UPDATE SET {changed}"

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format("jdbc").option("driver", "org.postgresql.Driver").option("user", "postgres")
        writer = writer.option("url", f"jdbc:postgresql://{server}/postgres?reWriteBatchedInserts=true")
        writer = writer.option("dbtable", f"{table}_stage").option("batchsize", 10_000).option("truncate", True)
        writer.mode("overwrite").save()
        with psycopg.connect(url) as connection:
            connection.execute(merge.encode())

    return write
