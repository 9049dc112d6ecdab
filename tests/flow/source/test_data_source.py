import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import read_stage
from headwater.node import Node
from headwater.record import Record
from headwater.testing import running_node
from tests.flow.source.writing import FIRST_MS, order, write
from tests.flow.spark_session import spark_session

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark's own

DDL = "id long, name string, at timestamp"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node() as node:
        yield node


numbers = count()


@pytest.fixture
def topic(node: Node) -> str:
    """Two partitions, 500 orders in each."""
    name = f"orders-{next(numbers)}"
    node.log.create_topic(name, partitions=2)
    write(node.kafka_address, name, {0: map(order, range(500)), 1: map(order, range(500, 1000))})
    return name


def batch(spark: SparkSession, node: Node, topic: str, schema: str | None = DDL, **options: Any) -> DataFrame:
    reader = spark.read.format("headwater").option("data", str(node.data)).option("topic", topic)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return (reader if schema is None else reader.schema(schema)).load()


def stream(spark: SparkSession, node: Node, topic: str, schema: str = DDL, **options: Any) -> DataFrame:
    reader = spark.readStream.format("headwater").option("address", node.kafka_address).option("topic", topic)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.schema(schema).load()


def run_once(frame: DataFrame, name: str, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(checkpoint / name)).outputMode("append")
    query = writer.option("checkpointLocation", str(checkpoint / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def ids(frame: DataFrame, column: str = "id") -> list[int]:
    return sorted(row[0] for row in frame.select(column).collect())


# -- batch ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_a_frame_without_any_registration(spark: SparkSession, node: Node, topic: str) -> None:
    frame = batch(spark, node, topic, schema=None)
    assert frame.columns == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
    row = frame.where("partition = 1 and offset = 3").first()
    assert row is not None
    assert (row.topic, bytes(row.value), row.headers, row.key) == (topic, order(503), [], None)
    assert row.timestamp.timestamp() == pytest.approx((FIRST_MS + 3) / 1000)
    assert frame.count() == 1000


def test_values_come_typed_with_the_hidden_columns_that_the_schema_names(
    spark: SparkSession, node: Node, topic: str
) -> None:
    frame = batch(spark, node, topic, f"_offset long, {DDL}, _partition int, _topic string, _timestamp timestamp")
    row = frame.where("id = 777").first()
    assert row is not None
    assert (row.name, row._offset, row._partition, row._topic) == ("order 777", 277, 1, topic)
    assert ids(frame) == list(range(1000))


def test_a_batch_read_between_offsets(spark: SparkSession, node: Node, topic: str) -> None:
    between = {
        "startingOffsets": json.dumps({topic: {"0": 490, "1": -1}}),
        "endingOffsets": json.dumps({topic: {"0": 495, "1": -1}}),
    }
    assert ids(batch(spark, node, topic, **between)) == [490, 491, 492, 493, 494]


def test_a_batch_read_between_times(spark: SparkSession, node: Node, topic: str) -> None:
    between: dict[str, Any] = {"startingTimestamp": FIRST_MS + 10, "endingTimestamp": FIRST_MS + 12}
    assert ids(batch(spark, node, topic, **between)) == [10, 11, 510, 511]


def test_an_end_beyond_the_end_is_a_mistake(spark: SparkSession, node: Node, topic: str) -> None:
    with pytest.raises(Exception, match="ends at 500"):
        batch(spark, node, topic, endingOffsets=json.dumps({topic: {"0": 501}})).count()


def test_several_topics_with_one_schema_are_one_frame(spark: SparkSession, node: Node, topic: str) -> None:
    node.log.create_topic(f"{topic}-more")
    write(node.kafka_address, f"{topic}-more", {0: map(order, range(1000, 1010))})
    assert ids(batch(spark, node, f"{topic},{topic}-more")) == list(range(1010))


def test_several_topics_with_schemas_of_their_own_come_as_structs(spark: SparkSession, node: Node, topic: str) -> None:
    node.log.create_topic(f"{topic}-clicks")
    write(node.kafka_address, f"{topic}-clicks", {0: [b'{"url": "/a"}', b'{"url": "/b"}']})
    streams = [
        {"name": "orders", "topic": topic, "schema": DDL, "columns": ["_offset"], "time": "at"},
        {"name": "clicks", "topic": f"{topic}-clicks", "schema": "url string"},
    ]
    reader = spark.read.format("headwater").option("address", node.kafka_address)
    frame = reader.option("streams", json.dumps(streams)).load()
    assert frame.columns == ["_stream", "orders", "clicks"]
    assert ids(frame.where("_stream = 0"), "orders.id") == list(range(1000))
    assert sorted(row.clicks.url for row in frame.where("clicks is not null").collect()) == ["/a", "/b"]
    assert frame.where("(_stream = 0) = (orders is null)").count() == 0


def test_a_topic_with_gaps_from_compaction_is_read_as_it_is(spark: SparkSession, node: Node) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    node.log.create_topic("compacted", configs=configs)
    for round_ in range(20):
        node.log.append("compacted", [Record(order(round_ * 10 + row), b"%d" % row) for row in range(10)])
    node.log.maintain()
    found = ids(batch(spark, node, "compacted", f"{DDL}, _offset long"), "_offset")
    assert len(found) < 200
    assert found[-10:] == list(range(190, 200))


def test_an_unknown_option_is_told_before_anything_runs(spark: SparkSession, node: Node) -> None:
    with pytest.raises(Exception, match="Did you mean maxRowsPerBatch"):
        batch(spark, node, "orders", maxRowPerBatch=10).count()


# -- streaming -----------------------------------------------------------------------------------------------------


def test_a_streaming_program_goes_on_from_its_checkpoint(
    spark: SparkSession, node: Node, topic: str, tmp_path: Path
) -> None:
    run_once(stream(spark, node, topic), "out", tmp_path)
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == list(range(1000))
    write(node.kafka_address, topic, {1: map(order, range(1000, 1100))})
    query = run_once(stream(spark, node, topic), "out", tmp_path)
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 100
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == list(range(1100))


def test_available_now_takes_what_is_there_in_batches_of_the_size_asked_for(
    spark: SparkSession, node: Node, topic: str, tmp_path: Path
) -> None:
    query = run_once(stream(spark, node, topic, maxRowsPerBatch=300), "out", tmp_path)
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(sizes) == 1000
    assert max(sizes) <= 300
    assert len(sizes) <= 6
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == list(range(1000))


def test_a_limit_in_bytes_divides_a_backlog_too(spark: SparkSession, node: Node, topic: str, tmp_path: Path) -> None:
    query = run_once(stream(spark, node, topic, maxBytesPerBatch=30_000), "out", tmp_path)
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(sizes) == 1000
    assert 2 <= len(sizes) <= 6


def test_partitions_of_a_backlog_advance_together_in_time(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    node.log.create_topic("apart", partitions=2)
    hour = 3_600_000
    write(node.kafka_address, "apart", {0: map(order, range(500))})
    write(node.kafka_address, "apart", {1: map(order, range(500, 1000))}, first_ms=FIRST_MS + hour)
    query = run_once(stream(spark, node, "apart", maxRowsPerBatch=200), "out", tmp_path)
    ends = [json.loads(progress["sources"][0]["endOffset"])["apart"] for progress in query.recentProgress]
    assert all(end["0"] == 500 or end["1"] == 0 for end in ends), "the later partition must wait for the earlier one"
    assert len(ends) >= 5


def test_what_retention_removed_is_a_loud_error(spark: SparkSession, node: Node, topic: str, tmp_path: Path) -> None:
    beginning = json.dumps({topic: {"0": 0, "1": 0}})
    node.log.partition(topic, 0).delete_records(200)
    with pytest.raises(Exception, match=r"Rows 0 to 199 were removed before they were read"):
        run_once(stream(spark, node, topic, startingOffsets=beginning), "out", tmp_path)


def test_what_retention_removed_can_be_accounted(spark: SparkSession, node: Node, topic: str, tmp_path: Path) -> None:
    beginning = json.dumps({topic: {"0": 0, "1": 0}})
    node.log.partition(topic, 0).delete_records(200)
    options: dict[str, Any] = {"startingOffsets": beginning, "onLoss": "account", "stage": tmp_path / "stage"}
    run_once(stream(spark, node, topic, **options), "out", tmp_path)
    assert len(ids(spark.read.parquet(str(tmp_path / "out")))) == 800
    staged = read_stage(tmp_path / "stage", [Range(topic, 0, 0, 500), Range(topic, 1, 0, 500)])
    assert sum(one.counts.lost for one in staged) == 200
    assert sum(one.counts.rows for one in staged) == 800


def test_a_thousand_broken_rows_of_a_hundred_thousand_are_staged_exactly(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    node.log.create_topic("dirty", partitions=2)
    rows = [b'{"id": "broken %d"}' % row if row % 100 == 7 else order(row) for row in range(50_000)]
    write(node.kafka_address, "dirty", {0: rows, 1: rows}, batch_bytes=500_000)
    options: dict[str, Any] = {"stage": tmp_path / "stage", "poisoned": "stage", "time": "at", "data": node.data}
    query = run_once(stream(spark, node, "dirty", maxRowsPerBatch=40_000, **options), "out", tmp_path)
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 99_000
    staged = read_stage(tmp_path / "stage", [Range("dirty", 0, 0, 50_000), Range("dirty", 1, 0, 50_000)])
    assert sum(one.counts.rows for one in staged) == 100_000
    assert sum(one.counts.poisoned for one in staged) == 1000
    reasons = [reason for one in staged for reason in one.poisoned.column("reason").to_pylist()]
    offsets = [offset for one in staged for offset in one.poisoned.column("offset").to_pylist()]
    assert offsets == list(range(7, 50_000, 100)) * 2
    assert all("id" in reason for reason in reasons)
    assert max(one.counts.event_time_max_us or 0 for one in staged) == 1767225659_000000


def test_a_partition_that_is_added_is_found_by_the_next_run(
    spark: SparkSession, node: Node, topic: str, tmp_path: Path
) -> None:
    run_once(stream(spark, node, topic), "out", tmp_path)
    node.log.add_partitions(topic, 3)
    write(node.kafka_address, topic, {2: map(order, range(1000, 1010))})
    run_once(stream(spark, node, topic), "out", tmp_path)
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == list(range(1010))


def test_a_topic_made_again_is_refused(spark: SparkSession, node: Node, topic: str, tmp_path: Path) -> None:
    run_once(stream(spark, node, topic), "out", tmp_path)
    node.log.delete_topic(topic)
    node.log.create_topic(topic, partitions=2)
    with pytest.raises(Exception, match="was the topic deleted and made again"):
        run_once(stream(spark, node, topic), "out", tmp_path)
