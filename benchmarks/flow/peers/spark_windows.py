"""Windows in Spark's own streaming aggregation: `python -m benchmarks.flow.peers.spark_windows KIND STORE ...`.

It reads the topic through the headwater source, the fastest there is for it.
"""

import argparse
import json
import time

STARTED = time.monotonic()

from pathlib import Path  # noqa: E402  # all that is loaded is part of a cold start

from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

from benchmarks.flow.events import LATENESS, SCHEMA  # noqa: E402
from benchmarks.flow.keyed import MEMORY_PROVIDER, PROVIDER, ROCKS_PROVIDER, ROCKS_SETTINGS  # noqa: E402
from benchmarks.flow.queries import session  # noqa: E402

PROVIDERS = {"rocks": ROCKS_PROVIDER, "memory": MEMORY_PROVIDER}


def windows_of(kind: str, events: DataFrame) -> DataFrame:
    timed = events.withWatermark("at", LATENESS)
    window = f.session_window("at", "10 seconds") if kind == "session" else f.window("at", "10 seconds")
    return timed.groupBy("key", window).agg(f.count("*").alias("n"), f.max("value").alias("most"))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("kind", "store", "data", "topic", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()
    settings = {**ROCKS_SETTINGS, PROVIDER: PROVIDERS[given.store]}
    with session(Path(given.folder), settings=settings) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        for run in ("cold", "warm"):
            begun = STARTED if run == "cold" else time.monotonic()
            reader = spark.readStream.format("headwater").option("data", given.data).option("topic", given.topic)
            events = reader.option("maxRowsPerBatch", given.rows_per_batch).schema(SCHEMA).load()
            writer = windows_of(given.kind, events).writeStream.format("noop").outputMode("append")
            place = str(Path(given.folder) / f"checkpoint-{run}")
            writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()
            print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main()
