"""Source: how many rows a second come out of a topic, typed, into a Spark query that does nothing with them."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.flow import orders
from benchmarks.flow.apart import Bench
from benchmarks.flow.jars import Peer, kafka_connector
from benchmarks.flow.names import CONNECTOR, HEADWATER, RAW
from benchmarks.flow.queries import in_turn, into_nothing, session
from benchmarks.results import Case
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable

SECTION = "source"
WARM_UP = "warm-up"
USERS = 1_000_000

Contender = Callable[[str], DataFrame]
"""From a topic to a frame of its typed rows."""


def measure(bench: Bench) -> None:
    connector = find_connector(bench)
    node = start_headwater(bench.folder / "node")
    try:
        with session(bench.folder, jars=[connector.jars] if connector else []) as spark:
            for partitions in bench.plan.partitions:
                measure_partitions(bench, contenders(spark, node, bench, connector), node, partitions)
    finally:
        node.stop()


def find_connector(bench: Bench) -> Peer | None:
    try:
        return kafka_connector()
    except NotAvailable as reason:
        bench.notices.append(f"Spark's Kafka connector is missing here: {reason}")
        return None


def measure_partitions(bench: Bench, contenders: dict[str, Contender], node: BrokerProcess, partitions: int) -> None:
    plan, case, topic = bench.plan, Case(SECTION, (str(partitions),)), f"orders-{partitions}"
    bench.progress.say(f"source: filling {topic} with {plan.source_rows:,} rows")
    orders.fill(node.address, topic, partitions=partitions, rows=plan.source_rows, users=USERS)
    for turn in range(plan.source_warm_ups):
        for name, frame_of in contenders.items():
            bench.progress.say(f"source: warming up {name}")
            place = checkpoint(bench, name, f"{partitions}-{WARM_UP}-{turn}")
            into_nothing(frame_of(topic), place, rows=plan.source_rows)
    for number in range(plan.rounds):
        for name in in_turn(contenders, number):
            bench.progress.say(f"source: round {number + 1} of {plan.rounds}, {name}, {partitions} partitions")
            place = checkpoint(bench, name, f"{partitions}-{number}")
            seconds = into_nothing(contenders[name](topic), place, rows=plan.source_rows)
            bench.results.add(case, name, rows=plan.source_rows / seconds)


def checkpoint(bench: Bench, name: str, of: str) -> Path:
    return bench.folder / "checkpoints" / f"{name.replace(', ', '-')}-{of}"


def contenders(spark: SparkSession, node: BrokerProcess, bench: Bench, connector: Peer | None) -> dict[str, Contender]:
    rows = str(bench.plan.source_rows_per_batch)

    def typed(topic: str) -> DataFrame:
        return headwater_orders(spark, node.data_path, topic, rows_per_batch=rows)

    def raw(topic: str) -> DataFrame:
        reader = spark.readStream.format("headwater").option("data", str(node.data_path)).option("topic", topic)
        return parsed(reader.option("maxRowsPerBatch", rows).load())

    def connected(topic: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", node.address)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        # Otherwise one partition would be read by one core, which the headwater source does not do either.
        reader = reader.option("minPartitions", str(spark.sparkContext.defaultParallelism))
        return parsed(reader.option("maxOffsetsPerTrigger", rows).load())

    found: dict[str, Contender] = {HEADWATER: typed, RAW: raw}
    return {**found, f"{CONNECTOR} ({connector.version})": connected} if connector else found


def headwater_orders(spark: SparkSession, data: Path, topic: str, *, rows_per_batch: str) -> DataFrame:
    reader = spark.readStream.format("headwater").option("data", str(data)).option("topic", topic)
    return reader.option("maxRowsPerBatch", rows_per_batch).schema(orders.SCHEMA).load()


def parsed(frame: DataFrame) -> DataFrame:
    """As a Spark user reads JSON."""
    text = f.col("value").cast("string")
    return frame.select(f.from_json(text, orders.SCHEMA).alias("order")).select("order.*")
