"""Joins of Spark's own: `python -m benchmarks.flow.peers.spark_joins KIND STORE DATA LEFT RIGHT FOLDER ROWS`.

It reads the topics through the headwater source, the fastest there is for it. A join of tables is one of streams that
never forgets: Spark has no other, and each key comes once.
"""

import argparse
import json
import time

STARTED = time.monotonic()

from pathlib import Path  # noqa: E402  # all that is loaded is part of a cold start

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

from benchmarks.flow.join_events import LATENESS, LEFT_SCHEMA, RIGHT_SCHEMA, WITHIN_SECONDS  # noqa: E402
from benchmarks.flow.keyed import MEMORY_PROVIDER, PROVIDER, ROCKS_PROVIDER, ROCKS_SETTINGS  # noqa: E402
from benchmarks.flow.queries import session  # noqa: E402

PROVIDERS = {"rocks": ROCKS_PROVIDER, "memory": MEMORY_PROVIDER}


def joined_by(kind: str, left: DataFrame, right: DataFrame) -> DataFrame:
    others = right.withColumnRenamed("key", "other_key")
    same = f.col("key") == f.col("other_key")
    if kind == "tables":
        return left.join(others, same)
    ours, theirs = left.withWatermark("at", LATENESS), others.withWatermark("since", LATENESS)
    near = f.expr(f"since between at and at + interval {WITHIN_SECONDS} seconds")
    return ours.join(theirs, same & near)


def stream_of(spark: SparkSession, data: str, topic: str, schema: str, rows: int) -> DataFrame:
    reader = spark.readStream.format("headwater").option("data", data).option("topic", topic)
    return reader.option("maxRowsPerBatch", str(rows)).schema(schema).load()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("kind", "store", "data", "left", "right", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()
    settings = {**ROCKS_SETTINGS, PROVIDER: PROVIDERS[given.store]}
    with session(Path(given.folder), settings=settings) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        for run in ("cold", "warm"):
            begun = STARTED if run == "cold" else time.monotonic()
            # Both sides of a batch together are as many rows as the others take.
            rows = int(given.rows_per_batch) // 2
            left = stream_of(spark, given.data, given.left, LEFT_SCHEMA, rows)
            right = stream_of(spark, given.data, given.right, RIGHT_SCHEMA, rows)
            writer = joined_by(given.kind, left, right).writeStream.format("noop").outputMode("append")
            place = str(Path(given.folder) / f"checkpoint-{run}")
            writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()
            print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main()
